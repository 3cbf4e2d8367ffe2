"""One run of a question, and its figures."""

import dataclasses
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from planner.catalog.measured import Shares
from planner.catalog.model import Catalog
from planner.catalog.reuse import Neighbours, ReuseProfile
from planner.control.proposal import BY_POLICY
from replay.bench.papers.affinity import FITTED, Affinity, with_affinity
from replay.bench.papers.runs.scaling import Scaled, Scaling, rules_of, scaled_of
from replay.bench.papers.runs.tiers import Moved, Tiers, moved_of
from replay.bench.truth import Truth
from replay.simulation import session
from replay.simulation.draws.hop_latencies import NO_LATENCIES
from replay.simulation.draws.run_times import ASKED, NO_VARIATION, Variation
from replay.simulation.results.figures import figures_of
from replay.simulation.run import Ran
from replay.simulation.setup import Outage, Residency, Setup, Timing
from replay.simulation.shipped_latencies import shipped_hop_latencies
from replay.traces import Trace
from schemas.errors import Unknown
from schemas.messages import Plan
from streams.catalogs import measured

# Behind a catalog's name, in this order of application; AFFINITY, PAIR and MISREAD take what follows them.
REUSE = "+reuse"  # every request finds a stored image
AFFINITY = "+affinity"  # what a prompt loses on a fast level depends on its class; "=FACTOR,POWER" of `Affinity`
PAIR = "+pair="  # one cascade alone, as LIGHT>HEAVY
MISREAD = "+misread="  # of a truth: this share of the prompts has another class than predicted, drawn by chance
Parameters = tuple[tuple[str, float], ...]

SILENT_BEATS = 6  # heartbeats that fail to come, after which a worker is dead to others


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A policy on a trace. Equal cells have equal figures."""

    catalog: str
    trace: str  # a name of `arrivals.py`
    policy: str
    slo_s: float
    workers: int = 16
    seed: int = 0
    parameters: Parameters = ()
    period_s: float = 5.0
    loads: bool = True  # changing variant takes the time that loading takes
    dispatch: str = ""
    outages: tuple[Outage, ...] = ()
    redraws: bool = True  # each seed has arrivals of its own, at the trace's rates; False: the same for all
    hops: bool = True  # what lies between processes takes the time that a live run took; False: none, as in the papers
    truth: str = ""  # a catalog that outcomes are drawn and judged by; "": the one that is planned with
    forecast: str = BY_POLICY  # of the demand
    hysteresis: str = BY_POLICY  # whether moves must be worth their cost
    beside: float = 0.0  # by how many times calls take longer while a model loads beside serving; 0: loading blocks
    run_cv: float = 0.0  # coefficient of variation of run times
    tiers: Tiers | None = None  # of the workers; None: what jobs need is always on the device
    drops: bool = True  # requests have the SLO as deadline; False: none has one
    beat_s: float = 0.5  # between heartbeats; a worker that is silent six times as long is dead to others
    scaling: Scaling | None = None  # of a fleet that grows and shrinks; None: it stays as it is


class Course(NamedTuple):
    """Counts over time; one entry an interval, requests count where they arrived."""

    width_s: float
    arrived: list[int]
    in_time: list[int]
    levels: list[dict[str, int]]


class Found(NamedTuple):
    """The figures of a run. Shares of 1; latencies in seconds."""

    violations: float
    quality: float  # windows of 20 s, blind mixtures at their lower bound
    quality_in_slo: float
    heavy_share: float
    by_level: dict[str, int]
    utilization: float
    p50_s: float
    p90_s: float
    p99_s: float
    switches: int
    pairs: dict[str, float]  # "light > heavy" -> share of the time that it was planned
    planned: list[tuple[float, int]]  # second of each plan, and how many workers it has
    course: Course
    cpu_s: float  # of the run, its solver included
    quality_run: float = float("nan")  # of all answers together, as the papers judge
    quality_optimistic: float = float("nan")  # the same two with blind mixtures at their upper bound
    quality_run_optimistic: float = float("nan")
    mean_s: float = float("nan")
    fleet: Scaled = Scaled()
    moved: Moved = Moved()

    @property
    def fid(self) -> float:
        """Where quality is one."""
        return -self.quality

    @property
    def requests(self) -> int:
        """Number of requests that arrived."""
        return sum(self.course.arrived)

    @property
    def moves_a_request(self) -> float:
        """Changes of a worker's variant, by requests."""
        return self.switches / max(1, self.requests)


def run(cell: Cell, trace: Trace) -> Found:
    """The figures of one run."""
    began = _cpu_s()
    ran = session.simulate(setup_of(cell, trace), trace, 1, lambda _requests: None)[0]
    figures, quantile = figures_of(ran), ran.tally.latencies.quantile
    p50, p90, p99 = ((quantile(share) or 0.0) / 1000 for share in (0.5, 0.9, 0.99))
    return Found(
        violations=figures["violation_rate"],
        quality=_number(figures["quality"]),
        quality_in_slo=_number(figures["quality_in_slo"]),
        heavy_share=_number(figures["heavy_share"]),
        by_level=dict(ran.tally.levels),
        utilization=_number(figures["utilization"]),
        p50_s=p50,
        p90_s=p90,
        p99_s=p99,
        switches=ran.switches,
        pairs=_pairs(ran),
        planned=[(plan.created_ms / 1000, len(plan.allocation)) for plan in ran.plans],
        course=_course(ran),
        cpu_s=_cpu_s() - began,
        quality_run=_number(figures["quality_run"]),
        quality_optimistic=_number(figures["quality_optimistic"]),
        quality_run_optimistic=_number(figures["quality_run_optimistic"]),
        mean_s=_number(figures["latency_s"]["mean"]),
        fleet=scaled_of(ran),
        moved=moved_of(ran),
    )


def setup_of(cell: Cell, trace: Trace | None = None) -> Setup:
    """Return the setup of a cell; tiers are as large as the trace's requests need, and absent without a trace."""
    parameters = dict(cell.parameters)
    catalog, tiers = catalog_of(cell.catalog), cell.tiers
    return Setup(
        catalog=catalog,
        components=None if tiers is None or trace is None else tiers.setup(trace, catalog, cell.workers),
        drops=cell.drops,
        policy=cell.policy,
        workers=cell.workers,
        slo_ms=1000 * cell.slo_s,
        seed=cell.seed,
        parameters=parameters,
        period_ms=1000 * cell.period_s,
        dispatch=cell.dispatch,
        outages=cell.outages,
        timing=Timing(
            beat_ms=1000 * cell.beat_s,
            silent_ms=SILENT_BEATS * 1000 * cell.beat_s,
            loads=cell.loads,
            hops=shipped_hop_latencies() if cell.hops else NO_LATENCIES,
            residency=Residency(models=2, beside_factor=cell.beside) if cell.beside else Residency(),
        ),
        truth=catalog_of(cell.truth) if cell.truth else None,
        forecast=cell.forecast,
        hysteresis=cell.hysteresis,
        variation=_variation(cell),
        scale=rules_of(cell.scaling),
    )


def _variation(cell: Cell) -> Variation:
    if not cell.run_cv:
        return NO_VARIATION
    return Variation(run_cv={name: {1: cell.run_cv} for name in catalog_of(cell.catalog).variants}, origin=ASKED)


@lru_cache(maxsize=64)
def catalog_of(name: str) -> Catalog:
    """A catalog that ships, changed by what stands behind its name: REUSE, AFFINITY, PAIR, MISREAD, or an aspect.

    An aspect is one of `replay.bench.truth`, such as "+time.sdxl=1.5".
    """
    base, _, last = name.rpartition("+")
    if not base:
        return measured(name)
    catalog, (what, _, value) = catalog_of(base), last.partition("=")
    if what == REUSE[1:]:
        return with_reuse(catalog)
    if what == AFFINITY[1:]:
        return with_affinity(catalog, _affinities(value))
    if what == PAIR[1:-1]:
        return with_pair(catalog, value)
    if what == MISREAD[1:-1]:
        return with_misread_classes(catalog, float(value))
    return Truth.parse([last]).of(catalog)


def _affinities(value: str) -> Mapping[str, Affinity]:
    """The fitted losses, or with "FACTOR,POWER" those times a factor and with another power."""
    if not value:
        return FITTED
    factor, power = (float(part) for part in value.split(","))
    return {strategy: Affinity(factor * own.loss, power) for strategy, own in FITTED.items()}


def with_pair(catalog: Catalog, pair: str) -> Catalog:
    """Leave a catalog one cascade, named LIGHT>HEAVY."""
    light, _, heavy = pair.partition(">")
    kept = tuple(own for own in catalog.cascades if (own.light, own.heavy) == (light, heavy))
    if not kept:
        raise Unknown("cascade", pair, [f"{own.light}>{own.heavy}" for own in catalog.cascades])
    return dataclasses.replace(catalog, cascades=kept)


def with_misread_classes(catalog: Catalog, share: float) -> Catalog:
    """Let a share of the prompts be of another class than is predicted, whichever: what is true for a poor classifier.

    Of a band of hardness, which predicts the class, the quality on a level is then that much nearer to the mean of all.
    """
    known = catalog.measured
    assert known is not None, f"catalog {catalog.name!r} has no quality by band"
    widths = [high - low for low, high in itertools.pairwise(known.bounds)]
    quality = dict[str, Shares]()
    for level, row in known.quality.items():
        mean = sum(width * value for width, value in zip(widths, row, strict=True) if value is not None)
        quality[level] = tuple(None if value is None else (1 - share) * value + share * mean for value in row)
    return dataclasses.replace(catalog, measured=dataclasses.replace(known, quality=quality))


def with_reuse(catalog: Catalog) -> Catalog:
    """Let every request find a stored image that is near enough for any level, in no time, as ARGUS 4.2 takes it."""
    profile = ReuseProfile(neighbours=(Neighbours(1.0, 1.0),))
    return dataclasses.replace(catalog, name=catalog.name + REUSE, reuse_profile=profile)


def with_parameters(cell: Cell, parameters: Mapping[str, float]) -> Cell:
    """The cell with these parameters beside its own."""
    return dataclasses.replace(cell, parameters=tuple(sorted((dict(cell.parameters) | dict(parameters)).items())))


def _pairs(ran: Ran) -> dict[str, float]:
    """Return the share of the time that each cascade was the first of the plan in force."""
    ends = [*(plan.created_ms for plan in ran.plans[1:]), ran.ended_ms]
    total, shares = 0.0, dict[str, float]()
    for plan, end in zip(ran.plans, ends, strict=True):
        lasted = max(0.0, end - max(0, plan.created_ms))
        total += lasted
        shares[_pair(plan)] = shares.get(_pair(plan), 0.0) + lasted
    return {pair: lasted / total for pair, lasted in shares.items()} if total else {}


def _pair(plan: Plan) -> str:
    if not plan.cascades:
        return " + ".join(sorted(set(plan.allocation.values())))
    return f"{plan.cascades[0].level} > {plan.cascades[0].next_level}"


def _course(ran: Ran) -> Course:
    timeline = ran.timeline
    levels = [dict(counts) for counts in timeline.levels]
    return Course(timeline.width_ms / 1000, timeline.arrived.tolist(), list(timeline.in_time), levels)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
