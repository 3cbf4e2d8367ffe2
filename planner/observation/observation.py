"""The planner's view of the pipeline as one value, with the windows that its estimates look back on."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from planner.observation.components import ObservedComponents
from planner.observation.deferral import ObservedDeferral
from planner.observation.needs import Need
from planner.observation.reuse import ObservedReuse
from planner.observation.run_times import ObservedRunTime
from planner.observation.workers import WorkerView
from schemas.errors import PochadeError
from schemas.messages import Plan

BINS = 10  # of the hardness histogram, equally wide
PRIOR = 20  # prompts of every hardness that are taken for seen
AMOUNT = "a number of 0 or more"
ANY_LEVEL = ""  # in place of a variant

# How far back the planner looks, live and in the simulator.
DEMAND_MS = 30_000  # over which arrivals are counted as the demand of now
COUNTS_S = 60  # of arrivals a second, of which a forecast is made
PROMPTS = 1000  # in the histograms of hardness, classes and tiers. Source: ARGUS 4.2, "the last 1,000 prompts"
SCORES = 4000  # confidences a level, the newest: a curve of ten bands is then known to within .1 a band
SERVED_MS = 60_000  # of results


class InvalidObservation(PochadeError):
    """An observation that nothing can be planned from: what, the value, the limit."""


class Queue(NamedTuple):
    """The jobs of one variant, first attempts and escalations."""

    variant: str
    waiting: float  # jobs that no worker has begun
    arriving_rps: float  # jobs a second that join; never the jobs in flight


class Served(NamedTuple):
    """The results of the last window."""

    requests: int = 0  # that ended in it
    in_time: float | None = None  # share of them answered by their deadline; None: none ended
    quality: float | None = None  # mean of their images, on the catalog's scale; None if not judged


NOTHING_SERVED = Served()


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that a policy may use. Times in epoch ms. Refuses numbers that are no rates or no shares."""

    now_ms: int
    demand_rps: float  # arrivals a second
    hardness: tuple[float, ...] = ()  # share of requests per bin, equally wide over [0, 1]; (): unknown
    classes: dict[str, dict[str, float]] = field(default_factory=dict)  # strategy -> class -> share of requests
    tiers: dict[str, float] = field(default_factory=dict)  # tier -> share of requests; {}: unknown
    workers: tuple[WorkerView, ...] = ()  # live ones, by id
    slo_ms: float = 0.0  # latency that most requests should meet; 0: none given
    forecast_rps: float | None = None  # arrivals a second until the next plan; None: not forecast, as many as now
    counts: tuple[int, ...] = ()  # arrivals in each second of the window, the oldest first
    queues: tuple[Queue, ...] = ()  # of variants that have any
    unserved: dict[str, float] = field(default_factory=dict)  # variant whose workers all load -> jobs that wait for it;
    # ANY_LEVEL: requests that any level serves, while the plan in force gives no level a worker
    run_times: tuple[ObservedRunTime, ...] = ()  # of variants of which enough was served; else the catalog's hold
    deferral: tuple[ObservedDeferral, ...] = ()  # of levels whose images were scored; else the catalog's holds
    served: Served = NOTHING_SERVED
    reuse: ObservedReuse | None = None  # lookups of stored latents; None without any
    in_force: Plan | None = None  # the plan that those who serve obey now; None: there is none
    needs: tuple[Need, ...] = ()  # of requests that only some variants serve, by these variants
    in_flight: dict[str, dict[str, float]] = field(default_factory=dict)  # tenant -> variant named, "": any -> mean
    hop_ms: float | None = None  # between two levels, without queue and judge (`hops.py`); None: not known
    ignored: int = 0  # records of the window whose numbers were none, such as a NaN confidence
    components: ObservedComponents | None = None  # None: no variant of the catalog lists bases

    def __post_init__(self) -> None:
        for need in self.needs:
            numbers = (need.rps, need.waiting, need.oldest_ms, need.last_ms, *need.work.values())
            is_whole = bool(need.variants) and all(map(_is_amount, numbers))
            _require(
                is_whole, f"need of {', '.join(need.variants)}", need, "one variant or more, and numbers of 0 or more"
            )
        for tenant, by_variant in self.in_flight.items():
            for name, mean in by_variant.items():
                _require(_is_amount(mean), f"requests in flight of {tenant} for {name or 'any level'}", mean, AMOUNT)
        for name in ("demand_rps", "slo_ms", "forecast_rps", "hop_ms"):
            value = getattr(self, name)
            _require(value is None or _is_amount(value), name, value, AMOUNT)
        for worker_id, ms in ((worker.worker_id, worker.remaining_ms) for worker in self.workers):
            _require(_is_amount(ms), f"remaining_ms of {worker_id}", ms, AMOUNT)
        for queue in self.queues:
            amounts = _is_amount(queue.waiting) and _is_amount(queue.arriving_rps)
            _require(amounts, f"queue of {queue.variant}", queue, "numbers of 0 or more")
        for name, jobs in self.unserved.items():
            _require(_is_amount(jobs), f"jobs that wait for {name}", jobs, AMOUNT)
        in_time = self.served.in_time
        known = _is_amount(self.served.requests) and (in_time is None or 0 <= in_time <= 1)
        _require(known, "served", self.served, "a number of requests and a share of them")
        for each in self.run_times:
            _require(_is_amount(each.factor) and each.factor > 0, f"run time of {each.variant}", each, "above 0")
        if self.reuse is not None:
            _check_reuse(self.reuse)
        if self.components is not None:
            _check_components(self.components)
        named = [(f"classes of {strategy}", histogram) for strategy, histogram in self.classes.items()]
        tables = [(name, tuple(shares.values())) for name, shares in (*named, ("tiers", self.tiers))]
        for name, shares in (("hardness", self.hardness), *tables):
            total = math.fsum(shares)
            sums = not shares or (all(0 <= share <= 1 for share in shares) and abs(total - 1) <= 1e-6)
            _require(sums, name, shares, "shares that sum to 1")

    @property
    def planning_rps(self) -> float:
        """The demand to plan for, before any over-provisioning."""
        return self.demand_rps if self.forecast_rps is None else self.forecast_rps


def _check_reuse(reuse: ObservedReuse) -> None:
    shares = (reuse.unanswered, reuse.failing, *(hits.rate for hits in reuse.hits.values()))
    amounts = (reuse.lookups, reuse.p50_ms, reuse.p95_ms, *(hits.jobs for hits in reuse.hits.values()))
    fits = all(0 <= share <= 1 for share in shares) and all(_is_amount(amount) for amount in amounts)
    _require(fits, "reuse", reuse, "shares in [0, 1], counts and times of 0 or more")


def _check_components(seen: ObservedComponents) -> None:
    for variant, demand in seen.demand.items():
        counts = (demand.requests, demand.fused, *demand.pairs.values())
        amounts = [amount for table in counts for count in table.values() for amount in count]
        fits = all(map(_is_amount, (demand.rps, *amounts))) and all(0 <= p <= 1 for p in demand.returning.values())
        _require(fits, f"components of {variant}", demand, "rates, counts and times of 0 or more, and shares")


def check_deferral(seen: ObservedDeferral, where: str) -> None:
    """Raise InvalidObservation unless bounds rise and there is a curve of rising shares between two of them.

    For one that was read: what `observed_deferral` makes is so. `where` begins each message.
    """
    bounds = seen.bounds
    rises = bounds == tuple(sorted(set(bounds))) and (bounds[:1], bounds[-1:]) == ((0.0,), (1.0,))
    if not rises or len(seen.curves) != len(bounds) - 1:
        raise InvalidObservation(f"{where}: bounds must rise from 0 to 1, with a curve between two: got {bounds}")
    for band, curve in enumerate(seen.curves):
        points = curve or ()
        if list(points) != sorted(points) or not all(0 <= share <= 1 for point in points for share in point):
            raise InvalidObservation(f"{where}: curves[{band}] must be shares that rise: got {points}")


def demand_rps(arrivals_ms: Sequence[int] | np.ndarray, now_ms: int, window_ms: int) -> float:
    """Arrivals a second in the window (now - window, now].

    Never the requests in flight, which grow with the backlog: DiffServe's artifact took those for demand and saw
    1.8 times the true rate.
    """
    times = np.asarray(arrivals_ms)
    return 1000 * int(np.count_nonzero((times > now_ms - window_ms) & (times <= now_ms))) / window_ms


def counts_per_second(arrivals_ms: Sequence[int] | np.ndarray, now_ms: int, seconds: int) -> tuple[int, ...]:
    """Arrivals in each of the last `seconds`, the oldest first; the last one ends with now. Later ones do not count."""
    ago_ms = now_ms - np.asarray(arrivals_ms, dtype=np.int64)
    ago_s = ago_ms[(ago_ms >= 0) & (ago_ms < 1000 * seconds)] // 1000
    return tuple(np.bincount(seconds - 1 - ago_s, minlength=seconds).tolist())


def queue_wait_ms(observation: Observation, variant: str) -> float:
    """Return the wait (ms) of a job that joins a variant's queue now: W = L / lambda (DiffServe 3.3, HADIS Eq. 3).

    0 where nothing waits or nothing is known. A queue that nothing joins has an undefined wait and counts as none:
    its jobs are in its workers' remaining time.
    """
    queue = next((q for q in observation.queues if q.variant == variant), None)
    return 1000 * queue.waiting / queue.arriving_rps if queue and queue.arriving_rps > 0 else 0.0


def hardness_shares(values: Sequence[float]) -> tuple[float, ...]:
    """Histogram of hardness values in [0, 1] as shares; () of none. Others, NaN too, are ignored. Source: ARGUS 4.2.

    PRIOR prompts spread evenly are added, as hardness is a quantile of reference prompts: the first prompt of a day
    does not make all of them easy.
    """
    every = np.asarray(values, dtype=np.float64)
    known = every[(every >= 0) & (every <= 1)]
    counts = np.bincount(np.minimum((known * BINS).astype(np.int64), BINS - 1), minlength=BINS)
    return tuple(((counts + PRIOR / BINS) / (len(known) + PRIOR)).tolist()) if len(known) else ()


def class_shares(labels: Iterable[str]) -> dict[str, float]:
    """label -> share of requests, by name, whatever the labels; {} of none. Source: ARGUS 4.2, H(v)."""
    return _shares(Counter(labels))


def _shares(counts: Counter[str]) -> dict[str, float]:
    return {label: count / counts.total() for label, count in sorted(counts.items())}


def class_histograms(prompts: Sequence[Mapping[str, str]]) -> dict[str, dict[str, float]]:
    """H(v) under each strategy, from what prompts were classified as under it: strategy -> class -> share.

    Of each, as a policy that changes its strategy routes by the other's. Source: ARGUS 4.2, 4.6.
    """
    kinds, counts = {id(classes): classes for classes in prompts}, Counter(map(id, prompts))  # one look a mapping
    histograms: dict[str, dict[str, float]] = {}
    for strategy in sorted({strategy for classes in kinds.values() for strategy in classes}):
        totals: Counter[str] = Counter()
        for kind, classes in kinds.items():
            totals[classes.get(strategy, "")] += counts[kind]
        histograms[strategy] = _shares(totals)
    return histograms


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _require(holds: bool, what: str, value: object, limit: str) -> None:
    if not holds:
        raise InvalidObservation(f"{what} of an observation must be {limit}: got {value!r}")
