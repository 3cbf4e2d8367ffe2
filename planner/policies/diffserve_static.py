"""`diffserve-static`: everything light first, doubtful images again on heavy, all of it fixed at the peak.

Source: DiffServe 4.1 and 4.5, "DiffServe-Static where all the optimization parameters are fixed and provisioned for
the peak": `diffserve`'s own optimum at the peak, with queues empty and f(t) as profiled, held whatever comes. Where a
threshold is given, or no peak, Eqs. 2-4 (x1 T1 >= D, x2 T2 >= D f(t), x1 + x2 <= S) divide the workers, and those to
spare go where the load is highest; a peak that does not fit lowers t along f(t), never fails. Its artifact runs other
constants: t = .02, batches (16, 4), workers (4, 12) on cascade 1 (SOURCES.md 3.6).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from planner.catalog.bands import curve_rows
from planner.catalog.entries import Discriminator, deferred_share, highest_threshold, throughput_rps
from planner.catalog.model import Catalog, Pair
from planner.control.allocation import assign
from planner.control.proposal import AS_PUBLISHED, Parameter, PlanProposal, on_terms, validate_parameters
from planner.control.wording.format import rate
from planner.observation.observation import NOTHING_SERVED, Observation
from planner.policies import diffserve
from planner.policies.diffserve import OPTIMISED
from planner.solvers.levels.shares import Flow, constant, expected
from schemas.messages import Cascade

PARAMETERS = {
    "peak_rps": Parameter(0, 0, 1e9),  # requests a second; 0: the highest peak that the workers carry
    "overprovision": Parameter(1.05, 0.01, 100),  # lambda. Source: DiffServe 3.3
    "batch": Parameter(0, 0, 1024, is_whole=True),  # 0: as optimised for the peak, else 1
    "threshold": Parameter(OPTIMISED, -1, 1),  # below 0: as optimised for the peak; without one the catalog's
}


def _parameters(pair: Pair, catalog: Catalog) -> dict[str, Parameter]:
    """The default of the step is the catalog's."""
    most_steps = catalog.level(pair.heavy).steps - 1
    return PARAMETERS | {"paint_over_step": Parameter(pair.refine_from_step, 0, most_steps, is_whole=True)}


@dataclass(frozen=True)
class Stages:
    """A cascade on some workers: x1, x2 and t of Eqs. 2-4."""

    light: int  # workers
    heavy: int  # workers
    threshold: float


@on_terms(AS_PUBLISHED)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """The static cascade over the catalog's first pair. Parameters: those of `_parameters`."""
    del memory  # constant in time
    offered = catalog.pair()
    settings = validate_parameters(parameters, _parameters(offered, catalog))
    pair = offered._replace(refine_from_step=int(settings["paint_over_step"]))
    if settings["peak_rps"] > 0 and settings["threshold"] < 0:
        return _optimised(pair, observation, catalog, settings)
    discriminator = catalog.discriminator(pair.discriminator)
    peak_rps, batch = settings["overprovision"] * settings["peak_rps"], int(settings["batch"]) or 1
    light_rps = throughput_rps(catalog.level(pair.light), batch)
    speeds = light_rps, throughput_rps(catalog.level(pair.heavy), batch, pair.refine_from_step)
    n_workers = len(observation.workers)
    wanted = settings["threshold"] if settings["threshold"] >= 0 else discriminator.threshold
    if peak_rps > 0:
        stages = carry(peak_rps, *speeds, n_workers, discriminator, wanted)
    else:
        stages = balance(*speeds, n_workers, discriminator, wanted)
    return _draft(stages, pair, observation, catalog, batch, _reason(stages, wanted, peak_rps))


def _optimised(pair: Pair, seen: Observation, catalog: Catalog, settings: Mapping[str, float]) -> PlanProposal:
    """Return what `diffserve` plans for the peak on empty queues, with nothing that changes in time."""
    at_peak = replace(
        seen, forecast_rps=settings["peak_rps"], counts=(), hardness=(), queues=(), deferral=(), served=NOTHING_SERVED
    )
    parameters = {name: settings[name] for name in ("overprovision", "batch")}
    fixed = diffserve.plan(at_peak, catalog, {}, parameters | {"paint_over_step": pair.refine_from_step})
    expected = fixed.expected
    if expected is not None and expected.demand_rps > 0:  # at the demand of now, in proportion
        busy = expected.utilization * seen.demand_rps / expected.demand_rps
        expected = replace(expected, demand_rps=seen.demand_rps, utilization=busy)
    return replace(
        fixed,
        expected=expected,
        memory={},
        reason=f"fixed for a peak of {rate(settings['peak_rps'], 'requests')}: {fixed.reason}",
    )


def carry(
    demand_rps: float, light_rps: float, heavy_rps: float, n_workers: int, discriminator: Discriminator, wanted: float
) -> Stages:
    """Workers per stage so that both carry the demand (Eqs. 2-4), at `wanted` or the highest threshold that fits.

    `light_rps` and `heavy_rps` are T1 and T2, images a second of one worker.
    """
    light = min(n_workers, _workers_for(demand_rps / light_rps))
    threshold = min(wanted, highest_threshold(discriminator, (n_workers - light) * heavy_rps / demand_rps))
    deferred_rps = demand_rps * deferred_share(discriminator, threshold)
    load = {"light": demand_rps / light_rps, "heavy": deferred_rps / heavy_rps}  # in workers
    counts = {"light": light, "heavy": min(n_workers - light, _workers_for(load["heavy"]))}
    return _stages(_fill(counts, load, n_workers), threshold)


def balance(light_rps: float, heavy_rps: float, n_workers: int, discriminator: Discriminator, wanted: float) -> Stages:
    """The split of all workers that carries the highest demand at the wanted threshold."""
    load = {"light": 1 / light_rps, "heavy": deferred_share(discriminator, wanted) / heavy_rps}
    return _stages(_fill({"light": 0, "heavy": 0}, load, n_workers), wanted)


def _fill(counts: Mapping[str, int], load: Mapping[str, float], n_workers: int) -> dict[str, int]:
    """Workers to spare, one by one to the stage with the most load a worker: the least possible load on the busiest."""
    filled = dict(counts)
    for _ in range(n_workers - sum(counts.values())):
        busiest = max(filled, key=lambda stage: _strain(load[stage], filled[stage]))
        filled[busiest] += 1
    return filled


def _strain(load: float, workers: int) -> float:
    if load == 0:
        return 0.0
    return load / workers if workers else math.inf


def _workers_for(load: float) -> int:
    return math.ceil(load - 1e-9)  # what rounding adds to a whole number needs no further worker


def _stages(counts: Mapping[str, int], threshold: float) -> Stages:
    """Return the stages of the plan; without a worker on heavy nothing is deferred to it, whatever f(t) says."""
    return Stages(counts["light"], counts["heavy"], threshold if counts["heavy"] else 0.0)


def _draft(stages: Stages, pair: Pair, seen: Observation, catalog: Catalog, batch: int, reason: str) -> PlanProposal:
    light, heavy, name, step = pair
    deferred = deferred_share(catalog.discriminator(name), stages.threshold)
    counts = {light: stages.light, heavy: stages.heavy}
    kept, quality = {light: 1 - deferred, heavy: deferred}, _quality(stages.threshold, pair, catalog)
    flow = Flow({light: 1.0, heavy: deferred}, kept, heavy, quality, {heavy: step})
    cascade = Cascade(
        level=light, next_level=heavy, discriminator=name, threshold=stages.threshold, refine_from_step=step
    )
    return PlanProposal(
        routes=constant({light: 1.0}),
        cascades=(cascade,),
        allocation=assign(counts, seen.workers),
        batch={light: batch, heavy: batch},
        expected=expected(flow, counts, catalog, batch, seen.demand_rps),
        reason=reason,
    )


def _quality(threshold: float, pair: Pair, catalog: Catalog) -> float | None:
    """Mean quality of all answers, linear between the thresholds that were measured; None: unknown."""
    rows = curve_rows(catalog, pair)
    known = [(row.threshold, row.quality) for row in rows if row.quality is not None]
    thresholds, qualities = zip(*known, strict=True) if len(known) == len(rows) else ((), ())
    return float(np.interp(threshold, thresholds, qualities)) if thresholds else None


def _reason(stages: Stages, wanted: float, peak_rps: float) -> str:
    for_what = f"for a peak of {rate(peak_rps, 'requests')}" if peak_rps > 0 else "in proportion to the work"
    words = f"workers are divided {for_what}, whatever the demand"
    return f"{words}; a confidence of {wanted:.3g} needs more workers" if stages.threshold < wanted else words
