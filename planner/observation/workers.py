"""Each worker, from heartbeats and the plan in force: whether it is alive, silent or gone.

All that says something of workers asks here: planner, router, gateway, console, `doctor`, `status`, `explain`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from schemas.messages import Heartbeat

SERVING = frozenset({"ready", "painting"})  # states that take new jobs
SICK = "sick"  # its device fails calls, or its model fails all of them: it has handed back what it had
OUT = frozenset({"failed", SICK})  # there, but serving nothing until the reason has passed
STOPPED = "stopped"
GONE = OUT | {STOPPED}
STALLED = "hanging"  # the state of a worker whose call is stalled: it is there, but takes no new jobs
FORGET_MS: Final = 600_000  # a worker unheard of for longer is forgotten: nothing is said of it


@dataclass(frozen=True, slots=True)
class ReceivedHeartbeat:
    """A heartbeat and when it was received (epoch ms), by the reader's clock or the broker's."""

    heartbeat: Heartbeat
    seen_ms: int
    other_ms: int | None = None  # start of the process that sent heartbeats under this id before; None: none did
    doubled_ms: int | None = None  # when that one was last heard between two heartbeats of this one; None: never

    def then(self, heartbeat: Heartbeat, seen_ms: int) -> "ReceivedHeartbeat":
        """Return what is known once the next heartbeat under the same id has come.

        The last heartbeat of a process that another has replaced changes nothing.
        """
        if heartbeat.started_ms == self.heartbeat.started_ms:
            return replace(self, heartbeat=heartbeat, seen_ms=seen_ms)
        is_back = heartbeat.started_ms == self.other_ms
        if is_back and heartbeat.state in (STOPPED, SICK):
            return self
        doubled_ms = seen_ms if is_back else self.doubled_ms
        return ReceivedHeartbeat(heartbeat, seen_ms, self.heartbeat.started_ms, doubled_ms)

    def is_doubled(self, now_ms: int, silent_ms: int) -> bool:
        """Whether two processes send heartbeats under this id."""
        return self.doubled_ms is not None and not is_silent(self.doubled_ms, now_ms, silent_ms)


def is_silent(seen_ms: float, now_ms: float, silent_ms: float) -> bool:
    """Whether a worker that was last heard at `seen_ms` counts as dead."""
    return now_ms - seen_ms > silent_ms


def standing_of(beat: ReceivedHeartbeat, now_ms: int, silent_ms: int) -> str:
    """Return ready, started (and not ready), failed (sick or hanging, too), gone (it has stopped) or silent."""
    if beat.heartbeat.state == STOPPED:
        return "gone"
    if is_silent(beat.seen_ms, now_ms, silent_ms):
        return "silent"
    if beat.heartbeat.state in OUT or beat.heartbeat.state == STALLED:
        return "failed"
    return "ready" if beat.heartbeat.state in SERVING else "started"


def is_alive(beat: ReceivedHeartbeat, now_ms: int, silent_ms: int) -> bool:
    """Whether a worker sends heartbeats, also one that serves nothing."""
    return beat.heartbeat.state != STOPPED and not is_silent(beat.seen_ms, now_ms, silent_ms)


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
        if is_alive(seen, now_ms, silent_ms) and seen.heartbeat.state not in OUT
    )


def stated_prices(
    heartbeats: Mapping[str, ReceivedHeartbeat], now_ms: int, silent_ms: int, variant: str = ""
) -> tuple[float, ...]:
    """Return the prices per hour of the live workers, of one variant or of all; () if one states none."""
    live = live_workers(heartbeats, now_ms, silent_ms)
    found = [heartbeats[each.worker_id].heartbeat.price_per_hour for each in live if variant in ("", each.variant)]
    return tuple(found) if all(found) else ()
