"""What the planner sees of the pipeline, as one value; and the estimates that fill it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.messages import Heartbeat

BINS = 10  # of the hardness histogram, equally wide
GONE = frozenset({"failed", "stopped"})


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

    @property
    def home(self) -> str:
        """Where it is, or is on its way to: leaving it there costs nothing."""
        return self.allocated or self.variant


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything a policy may look at. Times in epoch ms."""

    now_ms: int
    demand_rps: float  # arrivals a second
    hardness: tuple[float, ...] = ()  # share of requests per bin of width 1 / BINS; (): unknown
    classes: dict[str, float] = field(default_factory=dict)  # class of the strategy in force -> share
    workers: tuple[WorkerView, ...] = ()  # live ones, by id
    slo_ms: float = 0.0  # latency that most requests should meet; 0: none given


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


def hardness_shares(values: Sequence[float]) -> tuple[float, ...]:
    """Histogram of hardness values in [0, 1] as shares; () of none. Source: ARGUS 4.2, H(v)."""
    counts = Counter(min(int(value * BINS), BINS - 1) for value in values)
    return tuple(counts[b] / len(values) for b in range(BINS)) if values else ()


def class_shares(labels: Iterable[str]) -> dict[str, float]:
    """label -> share of requests, by name; {} of none. Source: ARGUS 4.2."""
    counts = Counter(labels)
    return {label: count / counts.total() for label, count in sorted(counts.items())}
