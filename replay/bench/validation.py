"""Validates the simulator: a live run is simulated again and compared with what really happened.

Given is what is a fact of the run and no prediction: its trace and what came before it, workers, policy and catalog;
hardness, classes and confidences as they were seen; the ids, by which routes draw; when its planner looked and how long
it took, as far as its plans say. What the deployment took beside generation (`HopLatencies`) is measured, in this run
or in another.
The rest is chance: the run is simulated many times, the median counts, and the range is reported.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from planner.catalog.model import Catalog
from planner.control.proposal import ALWAYS
from planner.scaling.fleet import ScaleRules
from planner.serving.admission.quotas import Quota
from replay.bench.planning_times import TICK_MS, planning_times
from replay.load.record.folder import RunFolder
from replay.load.record.request_records import observed
from replay.simulation.draws.hop_latencies import KINDS, RANKS, HopLatencies, Quantiles, Slots, of_kinds
from replay.simulation.overrides import requested_overrides
from replay.simulation.results.figures import Figures, figures_of
from replay.simulation.run import Simulation
from replay.simulation.setup import FIXED, PlanningTime, Residency, Setup, Timing
from replay.simulation.shipped_latencies import hop_latencies

LATENCY, VIOLATIONS, SHARES = 0.10, 0.03, 0.02  # relative, and of shares, by which live and simulated may differ. Ours
TIMES = 20  # that a run is simulated
LEAST_WARM_UP_MS, MOST_WARM_UP_MS = 1000.0, 60_000.0  # from the first plan to the first request
BEATS_ONCE = 3  # of a group in a session, when reports did not say so yet
AFTER_MS = 60_000.0  # the last arrival, until when the planner's looks are laid down


class ComparedFigure(NamedTuple):
    """One figure, live and simulated."""

    name: str
    live: float
    simulated: float
    apart: float  # relative for latencies, else of 1
    limit: float
    least: float  # simulated
    most: float

    @property
    def is_within(self) -> bool:
        """Whether the live and the simulated figure agree."""
        return abs(self.apart) <= self.limit

    @property
    def is_chance(self) -> bool:
        """Whether the live figure lies within those of the simulated runs."""
        return self.least <= self.live <= self.most


def simulated(run: RunFolder, catalog: Catalog, hops: HopLatencies) -> list[Figures]:
    """The figures of the run again, in discrete events; several times, as much of a live run is chance."""
    source, ids = observed(run.seen, catalog), [each.request_id for each in run.seen]
    until_ms = float(run.trace.arrival_ms[-1]) + AFTER_MS
    setups = [setup_of(run.report, catalog, hops, until_ms, time) for time in range(TIMES)]
    wishes = requested_overrides(run.trace, catalog, setups[0].quotas)
    return [figures_of(Simulation(setup, run.trace.arrival_ms, source, ids, wishes).run()) for setup in setups]


def setup_of(report: Mapping[str, Any], catalog: Catalog, hops: HopLatencies, until_ms: float, seed: int = 0) -> Setup:
    """The setup that a live run's report names; the seed is of draws, and of looks where their moment is unknown."""
    described = report["setup"]
    policy, figures = next(iter(report["policies"].items()))
    took_ms = report["live"].get("plans_took_ms", ())
    pairs = itertools.zip_longest(figures["changes"], took_ms[: len(figures["changes"])])
    plans = [PlanningTime(1000 * change["at_s"], took) for change, took in pairs]
    warm_up_ms = min(MOST_WARM_UP_MS, max(LEAST_WARM_UP_MS, -plans[0].at_ms if plans else 0.0))
    timing = {"group_beat_ms": described["timing"]["session_ms"] // BEATS_ONCE}
    timing |= {name: ms for name, ms in described["timing"].items() if ms is not None}  # None: without limit
    timing["residency"] = _residency(timing.get("residency", {}))
    timing |= {"hops": hops, "look_ms": TICK_MS, "warm_up_ms": warm_up_ms}
    return Setup(
        catalog=catalog,
        policy=policy,
        seed=seed,
        workers=described["workers"],
        slo_ms=1000 * described["slo_s"],
        parameters=described["parameters"][policy],
        period_ms=1000 * described["period_s"],
        forecast=described["forecast"],
        hysteresis=described.get("hysteresis", ALWAYS),  # earlier runs asked of every move what it gains
        learns=described["learns"],
        drops=described["drops"],
        sheds=described["sheds"],
        is_cold=True,
        looks=planning_times(plans, hops.plan, 1000 * described["period_s"], until_ms, seed),
        before_ms=tuple(round(1000 * at_s) for at_s in report["live"].get("came_before_s", ())),
        scale=ScaleRules(**described["scaling"]) if "scaling" in described else FIXED,
        quotas={tenant: Quota(**quota) for tenant, quota in described.get("quotas", {}).items()},
        timing=Timing(**timing),
    )


def _residency(described: Mapping[str, Any]) -> Residency:
    return Residency(**{**described, "preloaded": tuple(described.get("preloaded", ()))})


def compare_figures(live: Figures, simulated: Sequence[Figures], scale: float = 1.0) -> list[ComparedFigure]:
    """A live run's figures against the medians of the simulated ones; `scale` is of the limits."""
    rows = [_latency(rank, live, simulated, LATENCY * scale) for rank in ("p50", "p95")]
    violations = [each["violation_rate"] for each in simulated]
    rows.append(_share("violations", live["violation_rate"], violations, VIOLATIONS * scale))
    for level in sorted({level for each in (live, *simulated) for level in each["by_level"]}):
        own, *others = [each["by_level"].get(level, 0) / max(1, each["completed"]) for each in (live, *simulated)]
        rows.append(_share(f"share of {level}", own, others, SHARES * scale))
    return rows


def _share(name: str, live: float, simulated: Sequence[float], limit: float) -> ComparedFigure:
    median = float(statistics.median(simulated))
    return ComparedFigure(name, live, median, median - live, limit, min(simulated), max(simulated))


def _latency(rank: str, live: Figures, simulated: Sequence[Figures], limit: float) -> ComparedFigure:
    own, others = live["latency_s"][rank], [each["latency_s"][rank] for each in simulated]
    if own is None or None in others:
        apart = 0.0 if own is others[0] else math.inf
        return ComparedFigure(f"{rank} latency", math.nan, math.nan, apart, limit, math.nan, math.nan)
    median = float(statistics.median(others))
    return ComparedFigure(f"{rank} latency", own, median, median / own - 1, limit, min(others), max(others))


def measured_elsewhere(there: Mapping[str, Any], here: Mapping[str, Any]) -> HopLatencies:
    """Read the hop latencies of the run of one report, scaled to the speed of the machine in another's.

    As they are where one of the runs did not measure the machine's speed.
    """
    then_ms, now_ms = (tuple(report["live"].get("speed_ms", ())) for report in (there, here))
    hops = hop_latencies(there)
    return scaled(hops, speed_ratio(then_ms, now_ms)) if then_ms and now_ms else hops


def speed_ratio(then_ms: Quantiles, now_ms: Quantiles) -> float:
    """Return how many times longer a piece of work takes now, by medians; both are quantiles of its times at RANKS."""
    middle = len(RANKS) // 2
    return now_ms[middle] / then_ms[middle]


def scaled(hops: HopLatencies, factor: float) -> HopLatencies:
    """Return the latencies of a machine that takes `factor` times as long; values below 0 stay."""

    def of(slots: Slots) -> Slots:
        return tuple(tuple(round(ms * factor, 2) if ms > 0 else ms for ms in slot) for slot in slots)

    kinds = {kind: of(getattr(hops, kind)) for kind in KINDS}
    return of_kinds(kinds, {name: of(own) for name, own in hops.paint_of.items()}, hops.slot_ms)
