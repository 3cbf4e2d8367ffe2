"""Chooses each variant's latency target, so that every path of a request fits the SLO at the least work."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from planner.solvers.joint.program.capacity import staff_s
from planner.solvers.joint.program.problem import Gate, Mode, Problem

ROUNDING_S = 1e-9


class LatencyTarget(NamedTuple):
    """The latency target of a mode, and its cost for a number of workers."""

    staff_s: float  # worker-seconds of an image
    mode: int
    first_s: float
    sojourn_s: float


def targets_by_cost(modes: Sequence[Mode], count: float) -> list[LatencyTarget]:
    """Return the latency targets that a variant with `count` workers can meet, the cheapest first."""
    return sorted(LatencyTarget(staff_s(mode, count), m, mode.first_s, mode.sojourn_s) for m, mode in enumerate(modes))


def choose_targets(
    problem: Problem, legs: Iterable[Gate], images: Sequence[float], targets: Sequence[Sequence[LatencyTarget]]
) -> dict[int, int] | None:
    """Return variant -> its mode, for these legs, one a level; None if some path cannot be quick enough.

    Exact: the second level of a cascade is tried in every mode; the first takes the cheapest that leaves enough time.
    `images`: [V] a request, roughly; `targets`: [V] as `targets_by_cost` returns them.
    """
    held = {leg.level: leg for leg in legs}
    sources: defaultdict[int, list[Gate]] = defaultdict(list)
    for gate in held.values():
        if gate.next_level >= 0:
            sources[gate.next_level].append(gate)
    chosen: dict[int, int] = {}
    for level, gate in held.items():
        if gate.next_level < 0 and level not in sources:
            target = _cheapest(targets[level], problem.slo_s - gate.extra_s)
            if target is None:
                return None
            chosen[level] = target.mode
    for level, before in sources.items():
        found = _shared(problem, level, before, held.get(level), images, targets)
        if not found:
            return None
        chosen |= found
    return chosen


def _cheapest(targets: Sequence[LatencyTarget], left_s: float) -> LatencyTarget | None:
    """For requests without a draft that may take so long; None: nothing is quick enough."""
    return next((target for target in targets if target.first_s <= left_s + ROUNDING_S), None)


def _shared(
    problem: Problem,
    level: int,
    before: Sequence[Gate],
    own: Gate | None,
    images: Sequence[float],
    targets: Sequence[Sequence[LatencyTarget]],
) -> dict[int, int]:
    """Return the modes of a level that gets escalated images and of its drafts' levels; {} if none fit."""
    best: tuple[float, dict[int, int]] = float("inf"), {}
    for target in targets[level]:
        cost = images[level] * target.staff_s
        if cost >= best[0]:
            break
        if own and target.first_s > problem.slo_s - own.extra_s + ROUNDING_S:
            continue
        chosen = {level: target.mode}
        for gate in before:
            first = _cheapest(targets[gate.level], problem.slo_s - gate.extra_s - target.sojourn_s)
            if first is None:
                break
            cost += images[gate.level] * first.staff_s
            chosen[gate.level] = first.mode
        else:
            if cost < best[0]:
                best = cost, chosen
    return best[1]
