"""The planner's view of each worker, from heartbeats and the plan in force; which states serve, and which are gone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas.messages import Heartbeat

SERVING = frozenset({"ready", "painting"})  # states that take new jobs
SICK = "sick"  # its device fails calls, or its model fails all of them: it has handed back what it had
OUT = frozenset({"failed", SICK})  # there, but serving nothing until the reason has passed
GONE = OUT | {"stopped"}


@dataclass(frozen=True, slots=True)
class ReceivedHeartbeat:
    """A heartbeat and when it was received (epoch ms), by the reader's clock or the broker's."""

    heartbeat: Heartbeat
    seen_ms: int


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One live worker, as the planner sees it."""

    worker_id: str
    variant: str  # what it serves now; "": nothing yet
    state: str  # as in Heartbeat
    seen_ms: int
    remaining_ms: float  # queued and running work in all its partitions
    allocated: str = ""  # what the plan in force wants it to serve; "": not named there
    is_reserved: bool = False  # where it is allocated, for requests that name that level; others may go there, too
    worker_type: str = ""  # of hardware, where a fleet has several; "": the one that the catalog was measured on

    @property
    def home(self) -> str:
        """The variant that the worker serves or is loading: leaving it there costs nothing."""
        return self.allocated or self.variant


def reserved_in(workers: Iterable[WorkerView]) -> dict[str, str]:
    """Return the workers that stay where they are, as requests name that level: worker_id -> level."""
    return {worker.worker_id: worker.home for worker in workers if worker.is_reserved}


def live_workers(
    heartbeats: Mapping[str, ReceivedHeartbeat],
    now_ms: int,
    silent_ms: int,
    allocation: Mapping[str, str] | None = None,
) -> tuple[WorkerView, ...]:
    """Return the workers, by id, with a heartbeat within `silent_ms` and without a goodbye.

    `allocation` is that of the plan in force; with it, workers on their way to a variant count as there.
    """
    wanted = allocation or {}
    return tuple(
        WorkerView(
            worker_id=worker_id,
            variant=seen.heartbeat.variant,
            state=seen.heartbeat.state,
            seen_ms=seen.seen_ms,
            remaining_ms=float(sum(owned.remaining_ms for owned in seen.heartbeat.partitions)),
            allocated=wanted.get(worker_id, ""),
        )
        for worker_id, seen in sorted(heartbeats.items())
        if now_ms - seen.seen_ms <= silent_ms and seen.heartbeat.state not in GONE
    )


def stated_prices(
    heartbeats: Mapping[str, ReceivedHeartbeat], now_ms: int, silent_ms: int, variant: str = ""
) -> tuple[float, ...]:
    """Return the prices per hour of the live workers, of one variant or of all; () if one states none."""
    live = live_workers(heartbeats, now_ms, silent_ms)
    found = [heartbeats[each.worker_id].heartbeat.price_per_hour for each in live if variant in ("", each.variant)]
    return tuple(found) if all(found) else ()
