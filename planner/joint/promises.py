"""Which promise each variant makes, so that everyone on the way of a request is quick enough and the work is least."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from planner.joint.problem import Gate, Problem

Costs = Sequence[Sequence[float]]
"""[V][mode] worker-seconds of a picture."""


def promises(problem: Problem, legs: Iterable[Gate], pictures: Sequence[float], costs: Costs) -> dict[int, int] | None:
    """variant -> its mode, for these legs, one a level; None where some way cannot be quick enough.

    Exact: whoever paints again is tried in every mode; who paints before it takes the cheapest that leaves the time.
    `pictures`: [V] a request, roughly.
    """
    held = {leg.level: leg for leg in legs}
    sources: defaultdict[int, list[Gate]] = defaultdict(list)
    for gate in held.values():
        if gate.next_level >= 0:
            sources[gate.next_level].append(gate)
    chosen: dict[int, int] = {}
    for level, gate in held.items():
        if gate.next_level < 0 and level not in sources:
            mode = _cheapest(problem, level, problem.slo_s - gate.extra_s, costs)
            if mode < 0:
                return None
            chosen[level] = mode
    for level, before in sources.items():
        found = _shared(problem, level, before, held.get(level), pictures, costs)
        if not found:
            return None
        chosen |= found
    return chosen


def _cheapest(problem: Problem, variant: int, left_s: float, costs: Costs) -> int:
    """The mode in which requests without a draft take so long at most; -1: none."""
    fits = [m for m, mode in enumerate(problem.modes[variant]) if mode.first_s <= left_s + 1e-9]
    return min(fits, key=lambda m: costs[variant][m], default=-1)


def _shared(
    problem: Problem,
    level: int,
    before: Sequence[Gate],
    own: Gate | None,
    pictures: Sequence[float],
    costs: Costs,
) -> dict[int, int]:
    """The modes of a level that paints again and of those whose drafts it gets; {}: none fit."""
    best: tuple[float, dict[int, int]] = float("inf"), {}
    for m, mode in enumerate(problem.modes[level]):
        if own and mode.first_s > problem.slo_s - own.extra_s + 1e-9:
            continue
        firsts = {
            gate.level: _cheapest(problem, gate.level, problem.slo_s - gate.extra_s - mode.sojourn_s, costs)
            for gate in before
        }
        cost = pictures[level] * costs[level][m]
        cost += sum(pictures[v] * costs[v][first] for v, first in firsts.items() if first >= 0)
        if min(firsts.values()) >= 0 and cost < best[0]:
            best = cost, firsts | {level: m}
    return best[1]
