"""A live run simulated again, held against what really happened: does the simulator tell the truth?

The same trace, workers, policy and catalog; hardness, classes and confidences as they were seen; and the same ids, by
which routes draw. What the deployment took beside painting (`Hops`) is measured, in this run or in another one.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from planner.catalog import Catalog
from planner.quotas import Quota
from replay.live.folder import RunFolder
from replay.live.seen import observed
from replay.simulation.figures import Figures, figures_of
from replay.simulation.hops import KINDS, Hops, of_kinds
from replay.simulation.run import Simulation
from replay.simulation.setup import Setup, Timing
from replay.simulation.wishes import wishes_of
from schemas.errors import PochadeError

LATENCY, VIOLATIONS, SHARES = 0.10, 0.03, 0.02  # that may lie between. Source: issue 7
TICK_MS = 200.0  # between two looks of the live planner, and what looking takes. Source: agents/planning/loop.py
LOOKS_MS, MOST_LOOK_MS = (203.0, 202.0, 204.0, 201.0, 205.0), 230.0  # measured: plans every 5.06 to 5.12 s, asked for 5
TIMES = 5  # that a run is simulated; the median counts
LEAST_WARM_UP_MS, MOST_WARM_UP_MS = 1000.0, 60_000.0  # from the first plan to the first request


class Held(NamedTuple):
    """One figure of both."""

    name: str
    live: float
    simulated: float
    apart: float  # relative for latencies, else of 1
    limit: float

    @property
    def is_within(self) -> bool:
        """Whether the two agree."""
        return abs(self.apart) <= self.limit


def simulated(run: RunFolder, catalog: Catalog, hops: Hops) -> list[Figures]:
    """The figures of the run again, in discrete events; several times, as much of a live run is chance."""
    source, ids = observed(run.seen, catalog), [each.request_id for each in run.seen]
    setups = [setup_of(run.report, catalog, hops, time) for time in range(TIMES)]
    wishes = wishes_of(run.trace, catalog, setups[0].quotas)
    return [figures_of(Simulation(setup, run.trace.arrival_ms, source, ids, wishes).run()) for setup in setups]


def setup_of(report: Mapping[str, Any], catalog: Catalog, hops: Hops, seed: int = 0) -> Setup:
    """The setup that a live run's report names; the seed is of draws, and of when plans came where that is unknown."""
    told = report["setup"]
    policy, figures = next(iter(report["policies"].items()))
    planned_ms = [1000 * change["at_s"] for change in figures["changes"]]
    warm_up_ms = min(MOST_WARM_UP_MS, max(LEAST_WARM_UP_MS, -planned_ms[0] if planned_ms else 0.0))
    looked_ms = look_ms(planned_ms, 1000 * told["period_s"]) or LOOKS_MS[seed % len(LOOKS_MS)]
    timing = {**told["timing"], "hops": hops, "look_ms": looked_ms, "warm_up_ms": warm_up_ms}
    return Setup(
        catalog=catalog,
        policy=policy,
        seed=seed,
        workers=told["workers"],
        slo_ms=1000 * told["slo_s"],
        parameters=told["parameters"][policy],
        period_ms=1000 * told["period_s"],
        forecast=told["forecast"],
        learns=told["learns"],
        drops=told["drops"],
        sheds=told["sheds"],
        is_cold=True,
        quotas={tenant: Quota(**quota) for tenant, quota in told.get("quotas", {}).items()},
        timing=Timing(**timing),
    )


def look_ms(planned_ms: Sequence[float], period_ms: float) -> float | None:
    """How often the live planner looked, from when it published: a whole number of periods lies between two plans.

    A demand forecast near the border between two plans falls on either side by the second in which it is made. None
    where too few plans were published to tell.
    """
    looks = math.ceil(period_ms / TICK_MS)
    gaps = [after - before for before, after in itertools.pairwise(planned_ms)]
    found = [gap / max(1, int(gap // period_ms)) / looks for gap in gaps]
    usual = [each for each in found if TICK_MS <= each <= MOST_LOOK_MS]
    return statistics.median(usual) if usual else None


def held(live: Figures, simulated: Sequence[Figures], scale: float = 1.0) -> list[Held]:
    """A live run's figures against the medians of the simulated ones; `scale` is of the limits."""
    rows = [_latency(rank, live, simulated, LATENCY * scale) for rank in ("p50", "p95")]
    violations = _median([each["violation_rate"] for each in simulated])
    rows.append(_share("violations", live["violation_rate"], violations, VIOLATIONS * scale))
    for level in sorted({level for each in (live, *simulated) for level in each["by_level"]}):
        own, *others = [each["by_level"].get(level, 0) / max(1, each["completed"]) for each in (live, *simulated)]
        rows.append(_share(f"share of {level}", own, _median(others), SHARES * scale))
    return rows


def _share(name: str, live: float, simulated: float, limit: float) -> Held:
    return Held(name, live, simulated, simulated - live, limit)


def _latency(rank: str, live: Figures, simulated: Sequence[Figures], limit: float) -> Held:
    own, others = live["latency_s"][rank], [each["latency_s"][rank] for each in simulated]
    if own is None or None in others:
        return Held(f"{rank} latency", math.nan, math.nan, 0.0 if own is others[0] else math.inf, limit)
    return Held(f"{rank} latency", own, _median(others), _median(others) / own - 1, limit)


def _median(values: Sequence[float]) -> float:
    return float(statistics.median(values))


def hops_of(report: Mapping[str, Any], *, by_time: bool = False) -> Hops:
    """As a run's report has them: of the whole run, or by stretches of its time."""
    measured = report["live"].get("hops_by_time" if by_time else "hops")
    if measured is None:
        raise PochadeError("the run's report has no times between processes: replay it again with this release")
    return of_kinds({kind: tuple(tuple(slot) for slot in measured[kind]) for kind in KINDS}, measured["slot_ms"])
