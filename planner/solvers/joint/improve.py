"""Small changes to a plan as long as its value grows: thresholds, workers, batches, shares and bounds of its routes.

`planner.solvers.joint.value` judges the plans of all rules alike, so that small changes here correct what a rule rounds
or leaves out (whole workers, thresholds of a grid, room for queueing).
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from planner.catalog.bands import band_shares, cascade_table
from planner.catalog.model import Pair
from planner.control.allocation import assign
from planner.control.proposal import PlanProposal
from planner.solvers.joint.value import Model, PlanValue
from schemas.messages import Cascade

DEFERRED: Final = (-0.1, -0.03, -0.01, 0.01, 0.03, 0.1)  # of a level's images, more or fewer generated again
ALONG: Final = (-0.1, -0.03, 0.0, 0.03, 0.1)  # the same while a worker is moved
SHIFTED: Final = (-0.1, -0.03, 0.03, 0.1)  # of a route's requests, to another of its levels
BOUNDS: Final = (-0.05, 0.05)  # of hardness
GAIN: Final = 1e-4  # units of quality: less is no improvement
ROUNDS: Final = 12
MAX_PLANS: Final = 160  # that are evaluated to improve one


class Valued(NamedTuple):
    """A plan and its value."""

    plan: PlanProposal
    value: PlanValue


def improved(model: Model, begun: Valued, max_plans: int = MAX_PLANS) -> Valued:
    """The best plan found by single changes, each the best of all."""
    best, asked = begun, 0
    for _ in range(ROUNDS):
        found = best
        for plan in itertools.islice(_changes(model, best.plan), max_plans - asked):
            asked += 1
            value = model.evaluate(plan)
            if value.total > found.value.total:
                found = Valued(plan, value)
        if found.value.total <= best.value.total + GAIN:
            break
        best = found
        if asked >= max_plans:
            break
    return best


def _changes(model: Model, plan: PlanProposal) -> Iterator[PlanProposal]:
    yield from _thresholds(model, plan, DEFERRED)
    yield from _moves(model, plan)
    yield from _refuges(model, plan)
    yield from _batches(model, plan)
    yield from _shares(plan)
    yield from _bounds(plan)


def _thresholds(model: Model, plan: PlanProposal, deltas: tuple[float, ...]) -> Iterator[PlanProposal]:
    for at, cascade in enumerate(plan.cascades):
        for threshold in _near(model, cascade, deltas):
            if threshold != cascade.threshold:
                changed = replace(cascade, threshold=threshold)
                yield replace(plan, cascades=(*plan.cascades[:at], changed, *plan.cascades[at + 1 :]))


def _near(model: Model, cascade: Cascade, deltas: tuple[float, ...]) -> list[float]:
    """Thresholds that defer so much more of the level's images."""
    key = "near", cascade, deltas
    if key not in model.remembered:
        model.remembered[key] = _deferring(model, cascade, deltas)
    thresholds: list[float] = model.remembered[key]
    return thresholds


def _deferring(model: Model, cascade: Cascade, deltas: tuple[float, ...]) -> list[float]:
    pair = Pair(cascade.level, cascade.next_level, cascade.discriminator, cascade.refine_from_step)
    table = cascade_table(model.catalog, pair, model.seen)
    deferred = np.array(band_shares(model.catalog, model.seen)) @ np.array(table.deferred)
    now = float(np.interp(cascade.threshold, table.thresholds, deferred))
    rises = np.concatenate([[True], np.diff(np.maximum.accumulate(deferred)) > 0])
    wanted = [now + delta for delta in deltas]
    inside = [w for w in wanted if 0 <= w <= 1]
    found = np.interp(inside, deferred[rises], np.array(table.thresholds)[rises])
    thresholds = [round(min(0.999, float(threshold)), 6) for threshold in found]
    return [cascade.threshold if w == now else t for w, t in zip(inside, thresholds, strict=True)]


def _moves(model: Model, plan: PlanProposal) -> Iterator[PlanProposal]:
    counts = Counter(plan.allocation.values())
    used = {name for name in counts if name in model.catalog.variants}
    for source, target in itertools.permutations(sorted(used), 2):
        if counts[source] < 2:
            continue
        for size in {1, max(1, counts[source] // 8)}:
            moved = counts - Counter({source: size}) + Counter({target: size})
            allocation = assign(moved, model.seen.workers)
            changed = replace(plan, allocation=allocation)
            yield changed
            yield from _thresholds(model, changed, ALONG)


def _refuges(model: Model, plan: PlanProposal) -> Iterator[PlanProposal]:
    """A worker for a level that has none: routers send there who would be late elsewhere, whatever the routes say."""
    counts = Counter(plan.allocation.values())
    unused = [name for name in sorted(model.catalog.variants) if name not in counts]
    for source, target in itertools.product(sorted(counts.keys() & model.catalog.variants.keys()), unused):
        if counts[source] < 2:
            continue
        moved = counts - Counter({source: 1}) + Counter({target: 1})
        yield replace(plan, allocation=assign(moved, model.seen.workers))


def _batches(model: Model, plan: PlanProposal) -> Iterator[PlanProposal]:
    for name in sorted(set(plan.allocation.values()) & model.catalog.variants.keys()):
        sizes, own = sorted(model.catalog.variants[name].latency_ms), plan.batch.get(name, 1)
        fewer, more = [b for b in sizes if b < own], [b for b in sizes if b > own]
        for batch in fewer[-1:] + more[:1]:
            yield replace(plan, batch=plan.batch | {name: batch})


def _shares(plan: PlanProposal) -> Iterator[PlanProposal]:
    for at, route in enumerate(plan.routes):
        for source, target in itertools.permutations(sorted(route.levels), 2):
            for delta in SHIFTED:
                moved = min(route.levels[source], delta)
                if moved > 0:
                    grown = min(1.0, route.levels[target] + moved)  # the sum may be a little more
                    levels = route.levels | {source: route.levels[source] - moved, target: grown}
                    changed = replace(route, levels={name: share for name, share in levels.items() if share > 0})
                    yield replace(plan, routes=(*plan.routes[:at], changed, *plan.routes[at + 1 :]))


def _bounds(plan: PlanProposal) -> Iterator[PlanProposal]:
    """Another bound between two routes by hardness."""
    for at, (left, right) in enumerate(itertools.pairwise(plan.routes)):
        if left.label or right.label or left.hardness_to != right.hardness_from:
            continue
        for delta in BOUNDS:
            bound = left.hardness_to + delta
            if left.hardness_from < bound < right.hardness_to:
                both = replace(left, hardness_to=bound), replace(right, hardness_from=bound)
                yield replace(plan, routes=(*plan.routes[:at], *both, *plan.routes[at + 2 :]))
