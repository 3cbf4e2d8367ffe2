"""From which similarity on how many steps may be skipped, and what the guard allows: only what is shown to lose little.

Each floor, share and limit has a sequence of tests, the safest first, that ends where the first fails, so that the
confidence holds for what it ends with (as `evaluation.sweeps.choose_k`). What they do together is tested as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from agents.lab.evaluation.statistics.paired import paired_difference
from agents.lab.profiling.reuse.observed import EXACT, Marks, Observed
from agents.profiling.statistics.intervals import Estimate
from planner.catalog.caching import Bounded, MeasuredFloor
from planner.reuse.guard import Comparison, Verdict, allowed_share
from planner.reuse.neighbour import Neighbour, Wanted
from planner.reuse.steps import Candidate, Reuse, decide
from planner.reuse.terms import Difference, Floor, Floors, GuardShares

TOLERANCE: Final = 0.005  # of quality, over all requests
MIN_PAIRS: Final = 30  # hits of a floor, pairs of a kind of difference; of fewer nothing is said
_CANDIDATES: Final = 40  # similarities that are tried as floors
_DIGITS: Final = 1e5
_ANYTHING: Final = Wanted(tenant="", model="", width=1, height=1, dimension=1)


def bounded(estimate: Estimate) -> Bounded:
    """Return an estimate as a profile has it."""
    return Bounded(*(round(end, 5) for end in (estimate.value, estimate.low, estimate.high)))


def change(marks: Marks, reference: Marks) -> Estimate:
    """Return by how much quality differs on the same requests."""
    return paired_difference(marks.quality == 1, reference.quality == 1)


def lowest_floor(seen: Observed, step: int, tolerance: float) -> MeasuredFloor | None:
    """Return the lowest similarity from which on K loses at most `tolerance` over all requests; None without one.

    Requests below it, and those of which the guard finds other facts, run all steps. The highest similarity is tested
    first, down to the first that fails. One that has fewer than MIN_PAIRS hits rests on too little to be returned.
    """
    found: MeasuredFloor | None = None
    for similarity in _candidates(seen):
        hits = seen.neighbours.passes & (seen.neighbours.similarity >= similarity)
        lost = change(seen.begun(np.where(hits, step, 0)), seen.noise)
        if not lost.low >= -tolerance:
            break
        if hits.sum() < MIN_PAIRS:
            continue
        rate = float(hits.mean())
        found = MeasuredFloor(
            similarity=similarity,
            share=seen.share(step),
            hit_rate=round(rate, 5),
            exact_rate=round(float((hits & seen.neighbours.is_exact).mean()), 5),
            saved_share=round(rate * seen.share(step), 5),
            change=bounded(lost),
        )
    return found


def floors_alone(seen: Observed, tolerance: float) -> tuple[MeasuredFloor, ...]:
    """Return the lowest floor of each K that has one, the smallest K first.

    A K that has none does not end it: where facts are equal a late start can be the safer one, as the stored image
    shows them already, while one in between mixes two layouts.
    """
    floors = (lowest_floor(seen, step, tolerance) for step in seen.starts)
    return tuple(floor for floor in floors if floor is not None)


def compose(
    seen: Observed, alone: Sequence[MeasuredFloor], limits: GuardShares, tolerance: float, route: float = 1.0
) -> Floors:
    """Return floors that together lose at most `tolerance` on a route, out of those that do so each by itself.

    Begins with the floor that saves most by itself. Then shares that are smaller join, the next one first, until what
    all do together fails; then larger ones.
    """
    within = [floor for floor in alone if floor.share <= route]
    if not within or not _holds(seen, rising([best := max(within, key=_saved)]), limits, tolerance):
        return Floors()
    first, chosen = within.index(best), [best]
    for others in (within[:first][::-1], within[first + 1 :]):
        for other in others:
            tried = rising([*chosen, other])
            if not _holds(seen, tried, limits, tolerance):
                break
            chosen = [*chosen, other]
    return rising(chosen)


def _saved(floor: MeasuredFloor) -> float:
    return floor.saved_share


def rising(floors: Sequence[Floor | MeasuredFloor]) -> Floors:
    """Return floors in their order, where one of a smaller share that is not lower than the next says nothing."""
    found: list[Floor] = []
    for floor in sorted(floors, key=lambda each: each.share, reverse=True):
        if not found or floor.similarity < found[-1].similarity:
            found.append(Floor(floor.similarity, floor.share))
    return Floors(tuple(reversed(found)))


def _holds(seen: Observed, floors: Floors, limits: GuardShares, tolerance: float) -> bool:
    steps = steps_skipped(seen, floors, guard_with([floors], limits))
    return change(seen.begun(steps), seen.noise).low >= -tolerance


def guard_with(floors: Sequence[Floors], limits: GuardShares) -> GuardShares:
    """Return what the guard allows where facts are equal, but for style: as much as any floor; else the limits."""
    most = max((floor.share for each in floors for floor in each.floors), default=0.0)
    return replace(limits, equal=most, style=most)


def guard_limits(seen: Observed, tolerance: float) -> GuardShares:
    """Return the shares allowed where facts differ in one kind, and where the guard is unsure (as for unrelated ones).

    Unlike floors they are tested on such pairs alone, not against all requests: rare differences, such as three things
    in place of two, must not lose more than frequent ones.
    """
    unsure = _limit(seen, seen.unrelated, seen.unrelated_rows, tolerance)
    differs = {
        kind: limit
        for kind, pairs in pairs_of_one_kind(seen).items()
        if len(pairs) >= MIN_PAIRS
        if (limit := _limit(seen, seen.nearest, pairs, tolerance)) > 0
    }
    return GuardShares(equal=0.0, unsure=unsure, differs=differs)


def pairs_of_one_kind(seen: Observed) -> dict[Difference, np.ndarray]:
    """Return the requests, int [m], that differ from their nearest one in one kind alone, as far as the guard knows."""
    found: dict[Difference, list[int]] = {}
    for at in seen.nearest_rows:
        compared = seen.neighbours.known(at)
        if compared.verdict is Verdict.DIFFERS and len(compared.differences) == 1:
            found.setdefault(next(iter(compared.differences)), []).append(at)
    return {kind: np.array(found[kind]) for kind in sorted(found)}


def _limit(seen: Observed, begun: Mapping[int, Marks], rows: np.ndarray, tolerance: float) -> float:
    """The largest share up to which every one is shown to lose at most `tolerance` on these requests; 0: none."""
    found = 0.0
    for step in seen.starts:
        if not change(begun[step].at(rows), seen.noise.at(rows)).low >= -tolerance:
            break
        found = seen.share(step)
    return found


def steps_skipped(seen: Observed, floors: Floors, guard: GuardShares, route: float = 1.0) -> np.ndarray:
    """Return K of each request, int [n], where it may begin from its nearest earlier one; 0: from noise."""
    found = np.zeros(seen.count, int)
    for at in seen.neighbours.rows:
        similarity, compared = float(seen.neighbours.similarity[at]), seen.neighbours.known(at)
        found[at] = skipped(route, floors, guard, similarity, compared, seen.steps)
    return found


def skipped(
    route: float, floors: Floors, guard: GuardShares, similarity: float, compared: Comparison, steps: int
) -> int:
    """Return K as a worker decides it (`planner.reuse.steps`), of a row that nothing else speaks against."""
    row = Neighbour(tenant="", model="", width=1, height=1, dimension=1, similarity=similarity, expires_ms=1)
    decision = decide(route, floors, [Candidate(row, allowed_share(guard, compared))], _ANYTHING, steps, 0.0)
    return decision.step if isinstance(decision, Reuse) else 0


def _candidates(seen: Observed) -> list[float]:
    """Similarities to try as floors, falling: as many requests that the guard passes between two as between others."""
    near = seen.neighbours
    own = near.similarity[near.passes & ~near.is_exact]
    cut = np.quantile(own, np.linspace(1, 0, _CANDIDATES)) if len(own) else np.zeros(0)
    rounded = {float(np.floor(each * _DIGITS) / _DIGITS) for each in cut}
    candidates = sorted({EXACT, *rounded}, reverse=True)
    assert all(higher > lower for higher, lower in pairwise(candidates)), candidates
    return candidates
