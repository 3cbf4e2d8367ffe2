"""Evaluates a proposal of any policy: the load of each variant's workers, and what limits the plan."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from planner.catalog.bands import Histogram, cascade_table, hardness_of, shares_within
from planner.catalog.entries import deferred_share, run_ms, variant_of
from planner.catalog.model import Catalog, Pair
from planner.control.proposal import PlanProposal
from planner.control.wording.format import counted, number
from planner.observation.observation import Observation, queue_wait_ms
from schemas.messages import Cascade, Route

TIGHT = 0.9  # of a limit; beyond it the limit is said to bind


class VariantLoad(NamedTuple):
    """A variant under a proposal."""

    variant: str
    workers: int
    offered_rps: float  # images a second, first ones and escalations
    capacity_rps: float  # of its workers, at the proposal's batch size

    @property
    def utilization(self) -> float:
        """Share of its workers' time; infinite if requests are sent there and no worker serves it."""
        if self.offered_rps <= 0:
            return 0.0
        return self.offered_rps / self.capacity_rps if self.capacity_rps > 0 else math.inf


class Evaluation(NamedTuple):
    """The loads, the longest latency and the binding limits of a proposal at the demand planned for."""

    loads: tuple[VariantLoad, ...]  # by variant
    latency_ms: float  # the longest way: waits seen, calls, judging
    binding: tuple[str, ...]  # limits that it is close to or beyond, in words; (): none


def evaluate(proposal: PlanProposal, seen: Observation, catalog: Catalog) -> Evaluation:
    """Pass shares by bins of hardness through routes, then cascades at the deferral seen or measured there.

    A class's share counts as spread over hardness as all prompts are, for the two are not observed together.
    """
    hardness = hardness_of(catalog, seen)
    masses = _first(proposal, seen, hardness)
    steps: dict[str, int] = {}
    for cascade in _in_order(proposal.cascades):
        if cascade.level in masses:
            deferred = masses[cascade.level] * _deferral(cascade, seen, catalog, hardness.edges)
            masses[cascade.next_level] = masses.get(cascade.next_level, 0.0) + deferred
            steps[cascade.next_level] = cascade.refine_from_step
    shares = {level: float(mass.sum()) for level, mass in masses.items()}
    loads = _loads(shares, steps, proposal, seen, catalog)
    ways_ms = [_way_ms(level, proposal, seen, catalog) for level, share in shares.items() if share > 0]
    latency_ms = max(ways_ms, default=0.0)
    return Evaluation(loads, latency_ms, tuple(_binding(loads, latency_ms, seen)))


def first_loads(proposal: PlanProposal, seen: Observation, catalog: Catalog) -> tuple[VariantLoad, ...]:
    """Return the loads as `evaluate` does, of first images alone."""
    shares = {level: float(mass.sum()) for level, mass in _first(proposal, seen, hardness_of(catalog, seen)).items()}
    return _loads(shares, {}, proposal, seen, catalog)


def _first(proposal: PlanProposal, seen: Observation, hardness: Histogram) -> dict[str, np.ndarray]:
    """level -> share of requests a bin of hardness that goes there first."""
    masses: dict[str, np.ndarray] = {}
    weights = _weights(proposal.routes, seen.classes.get(proposal.strategy, {}))
    for route, weight in zip(proposal.routes, weights, strict=True):
        low, high = (0.0, 1.0) if route.label else (route.hardness_from, route.hardness_to)
        mass = weight * np.array(shares_within(hardness, hardness.edges, low, high))
        for level, share in route.levels.items():
            masses[level] = masses.get(level, 0.0) + share * mass
    return masses


def _weights(routes: Sequence[Route], classes: Mapping[str, float]) -> list[float]:
    """Share of requests that each route looks at: its class's; by hardness go those whose class has no route."""
    labels = [classes.get(route.label, 0.0) for route in routes if route.label]
    labelled = math.fsum(labels)
    if len(labels) < len(routes):
        return [classes.get(route.label, 0.0) if route.label else 1 - labelled for route in routes]
    return [label / labelled for label in labels] if labelled else [1 / len(labels)] * len(labels)


def _in_order(cascades: Iterable[Cascade]) -> list[Cascade]:
    """Sort cascades so that each comes after those that lead to its level."""
    left, ordered = list(cascades), list[Cascade]()
    while left:
        targets = {cascade.next_level for cascade in left}
        ready = [cascade for cascade in left if cascade.level not in targets]
        assert ready, f"cascades must end: got a cycle in {left}"
        ordered += ready
        left = [cascade for cascade in left if cascade not in ready]
    return ordered


def _deferral(cascade: Cascade, seen: Observation, catalog: Catalog, edges: Sequence[float]) -> np.ndarray:
    """Share generated again, of each bin of hardness."""
    pair = Pair(cascade.level, cascade.next_level, cascade.discriminator, cascade.refine_from_step)
    if cascade.level not in catalog.variants:
        return np.full(len(edges) - 1, deferred_share(catalog.discriminator(cascade.discriminator), cascade.threshold))
    table = cascade_table(catalog, pair, seen)
    centres = (np.array(edges[1:]) + np.array(edges[:-1])) / 2
    bands = np.clip(np.searchsorted(table.bounds, centres, side="right") - 1, 0, len(table.deferred) - 1)
    at = [np.interp(cascade.threshold, table.thresholds, row) for row in table.deferred]
    return np.asarray(np.array(at)[bands])


def _loads(
    shares: Mapping[str, float], steps: Mapping[str, int], proposal: PlanProposal, seen: Observation, catalog: Catalog
) -> tuple[VariantLoad, ...]:
    counts = list(proposal.allocation.values())
    offered: dict[str, float] = dict.fromkeys(sorted(set(counts)), 0.0)
    work_ms: dict[str, float] = {}
    for level, share in shares.items():
        variant, rps = variant_of(level), share * seen.planning_rps
        offered[variant] = offered.get(variant, 0.0) + rps
        work_ms[variant] = work_ms.get(variant, 0.0) + rps * _image_ms(level, steps.get(level, 0), proposal, catalog)
    return tuple(
        VariantLoad(variant, count, rps, count * _rps(rps, work_ms.get(variant, 0.0), variant, proposal, catalog))
        for variant, rps in sorted(offered.items())
        for count in [counts.count(variant)]
    )


def _rps(rps: float, work_ms: float, variant: str, proposal: PlanProposal, catalog: Catalog) -> float:
    """Return the images per second of one worker on this mix; without a mix, of images from noise."""
    return 1000 * rps / work_ms if work_ms > 0 else 1000 / _image_ms(variant, 0, proposal, catalog)


def _image_ms(level: str, step: int, proposal: PlanProposal, catalog: Catalog) -> float:
    variant = variant_of(level)
    batch = proposal.batch.get(variant, 1)
    return run_ms(catalog.level(variant), batch, step) / batch * _reuse_share(level, proposal, catalog)


def _reuse_share(level: str, proposal: PlanProposal, catalog: Catalog) -> float:
    """Return the mean time of a reuse level's images as a share of a full generation; 1 without reuse in the plan."""
    variant = variant_of(level)
    starts = {f"{variant}~k{start.k}": start.cost_share for start in catalog.reuse.get(variant, ())}
    hit_rate = proposal.reuse.hits.get(level, 0.0) if proposal.reuse else 0.0
    return 1.0 - hit_rate * (1.0 - starts.get(level, 1.0))


def _way_ms(level: str, proposal: PlanProposal, seen: Observation, catalog: Catalog) -> float:
    """Return the time in ms of waiting, generating and judging from this level on, through all its cascades."""
    variant = variant_of(level)
    own_ms = queue_wait_ms(seen, variant) + run_ms(catalog.level(variant), proposal.batch.get(variant, 1))
    cascade = next((c for c in proposal.cascades if c.level == level and c.threshold > 0), None)
    if cascade is None:
        return own_ms
    judging_ms = catalog.discriminator(cascade.discriminator).judging_ms
    return own_ms + judging_ms + _way_ms(cascade.next_level, proposal, seen, catalog)


def _binding(loads: Iterable[VariantLoad], latency_ms: float, seen: Observation) -> Iterable[str]:
    for load in loads:
        if load.offered_rps > 0 and not load.workers:
            yield f"no worker serves {load.variant}, to which {number(load.offered_rps)} images a second are sent"
        elif load.utilization >= TIGHT:
            yield f"{load.variant}: its {counted(load.workers, 'worker')} would be {load.utilization:.0%} busy"
    if seen.slo_ms > 0 and latency_ms >= TIGHT * seen.slo_ms:
        yield f"the SLO of {number(seen.slo_ms / 1000)} s: the slowest path takes {latency_ms / 1000:.2f} s"
