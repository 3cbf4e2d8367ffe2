"""What the planner sees of the pipeline, as one value; and the estimates that fill it."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from planner.deferral_seen import SeenDeferral
from schemas.errors import PochadeError
from schemas.messages import Heartbeat

BINS = 10  # of the hardness histogram, equally wide
GONE = frozenset({"failed", "stopped"})


class InvalidObservation(PochadeError):
    """An observation that nothing can be planned from: what, the value, the limit."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A heartbeat and when it was heard, by the reader's clock or the broker's."""

    heartbeat: Heartbeat
    seen_ms: int


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One live worker."""

    worker_id: str
    variant: str  # what it serves now; "": nothing yet
    state: str  # as in Heartbeat
    seen_ms: int
    remaining_ms: float  # queued and running work in all its partitions
    allocated: str = ""  # what the plan in force wants it to serve; "": not named there
    worker_type: str = ""  # of hardware, where a fleet has several; "": the one that the catalog was measured on

    @property
    def home(self) -> str:
        """Where it is, or is on its way to: leaving it there costs nothing."""
        return self.allocated or self.variant


class Queue(NamedTuple):
    """The jobs of one variant, first attempts and escalations."""

    variant: str
    waiting: float  # jobs that no worker has begun
    arriving_rps: float  # jobs a second that join; never the jobs in flight (facts/peers.md 0.1)


class Served(NamedTuple):
    """The results of the last window."""

    requests: int = 0  # that ended in it
    in_time: float | None = None  # share of them answered by their deadline; None: none ended
    quality: float | None = None  # mean of their pictures, on the catalog's scale; None: nobody judged


NOTHING_SERVED = Served()


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything a policy may look at. Times in epoch ms. Refuses numbers that are no rates or no shares."""

    now_ms: int
    demand_rps: float  # arrivals a second
    hardness: tuple[float, ...] = ()  # share of requests per bin, equally wide over [0, 1]; (): unknown
    classes: dict[str, float] = field(default_factory=dict)  # class of the strategy in force -> share
    workers: tuple[WorkerView, ...] = ()  # live ones, by id
    slo_ms: float = 0.0  # latency that most requests should meet; 0: none given
    forecast_rps: float | None = None  # arrivals a second until the next plan; None: as many as now
    counts: tuple[int, ...] = ()  # arrivals in each second of the window, the oldest first
    queues: tuple[Queue, ...] = ()  # of variants that have any
    deferral: tuple[SeenDeferral, ...] = ()  # of levels whose pictures were scored; else the catalog's holds
    served: Served = NOTHING_SERVED
    retrieval_ms: float | None = None  # to look up and fetch a past picture; inf: no answer; None: none was looked up
    ignored: int = 0  # records of the window whose numbers were none, such as a NaN confidence

    def __post_init__(self) -> None:
        for name in ("demand_rps", "slo_ms", "forecast_rps"):
            value = getattr(self, name)
            _require(value is None or (math.isfinite(value) and value >= 0), name, value, "a number of 0 or more")
        retrieval_ms = self.retrieval_ms
        _require(retrieval_ms is None or retrieval_ms >= 0, "retrieval_ms", retrieval_ms, "0 or more, or inf")
        for name, shares in (("hardness", self.hardness), ("classes", tuple(self.classes.values()))):
            total = math.fsum(shares)
            sums = not shares or (all(0 <= share <= 1 for share in shares) and abs(total - 1) <= 1e-6)
            _require(sums, name, shares, "shares that sum to 1")

    @property
    def planning_rps(self) -> float:
        """The demand to plan for, before any over-provisioning."""
        return self.demand_rps if self.forecast_rps is None else self.forecast_rps


def live_workers(
    heartbeats: Mapping[str, Seen], now_ms: int, silent_ms: int, allocation: Mapping[str, str] | None = None
) -> tuple[WorkerView, ...]:
    """The workers heard of within `silent_ms` that have not said goodbye, by id.

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


def demand_rps(arrivals_ms: Sequence[int], now_ms: int, window_ms: int) -> float:
    """Arrivals a second in the window (now - window, now].

    Never the requests in flight, which grow with the backlog: DiffServe's artifact took those for demand and saw
    1.8 times the true rate (facts/peers.md 0.1).
    """
    arrived = sum(1 for at_ms in arrivals_ms if now_ms - window_ms < at_ms <= now_ms)
    return 1000 * arrived / window_ms


def queue_wait_ms(observation: Observation, variant: str) -> float:
    """How long a job that joins a variant's queue now will wait: W = L / lambda. Source: DiffServe 3.3, HADIS Eq. 3.

    0 where nothing waits or nothing is known. A queue that nothing joins has an undefined wait and counts as none:
    its jobs are in its workers' remaining time.
    """
    queue = next((q for q in observation.queues if q.variant == variant), None)
    return 1000 * queue.waiting / queue.arriving_rps if queue and queue.arriving_rps > 0 else 0.0


def hardness_shares(values: Sequence[float]) -> tuple[float, ...]:
    """Histogram of hardness values in [0, 1] as shares; () of none. Others, NaN too, are ignored. Source: ARGUS 4.2."""
    counts = Counter(min(int(value * BINS), BINS - 1) for value in values if 0 <= value <= 1)
    return tuple(counts[b] / counts.total() for b in range(BINS)) if counts else ()


def class_shares(labels: Iterable[str]) -> dict[str, float]:
    """label -> share of requests, by name, whatever the labels; {} of none. Source: ARGUS 4.2, H(v)."""
    counts = Counter(labels)
    return {label: count / counts.total() for label, count in sorted(counts.items())}


def shares_over(levels: Sequence[str], classes: Mapping[str, float]) -> dict[str, float]:
    """H over exactly these levels, sums to 1: a level that was not seen has 0.

    What was classified as something else counts as the last level, and so does everything where nothing was seen: name
    the best one last, so that a prompt of which nothing is known is not approximated.
    """
    shares = {level: classes.get(level, 0.0) for level in levels}
    shares[levels[-1]] += max(0.0, 1.0 - math.fsum(shares.values()))
    return shares


def _require(holds: bool, what: str, value: object, limit: str) -> None:
    if not holds:
        raise InvalidObservation(f"{what} of an observation must be {limit}: got {value!r}")
