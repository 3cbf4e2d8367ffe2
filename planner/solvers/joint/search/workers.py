"""From gates with workers that are not whole to a plan: whole workers, then small changes as long as they help."""

import itertools
import math

import numpy as np

from planner.solvers.joint.one_level import throughput
from planner.solvers.joint.program.problem import Running, Solution, solution_of
from planner.solvers.joint.search.gates import GAIN, TRIED, Found, Search, way_of
from planner.solvers.joint.search.linear import VariantCapacity

SHIFTS, SHIFTS_OF_MOVED = 3, 1  # other gates tried of each way, the most promising and as many evenly among all
EXPLORED_PER_LEVEL, MAX_EXPLORED = 16, 60  # programs a level and in all, up to which neighbours are searched
LAST = 110  # programs after which what was found has to do: nothing lost that could be measured
WIDE = 20  # sets one step away that are tried where the most promising did not help
HOPE = 0.02  # spans of quality: who is worse by less may be better when polished
MOVED = 2  # variants that gain most by a worker more, and that lose least by one fewer


def whole(search: Search, found: Found) -> Found | None:
    """Whole workers, one variant after the other, the rest free: the one nearest to a whole number first."""
    while free := [v for v, capacity in found.capacities.items() if not capacity.workers]:
        staff = found.answer.staff
        v = min(free, key=lambda v: abs(float(staff[v]) - round(float(staff[v]))))
        near = dict.fromkeys([max(1, math.floor(staff[v] + 1e-6)), math.ceil(staff[v] - 1e-6)])
        tried = [other for count in near if (other := staffed(search, found, {v: count}))]
        if not tried:
            return None
        found = max(tried, key=lambda other: other.value)
    return found


def search_neighbourhood(search: Search, found: Found) -> Found:
    """Polish a plan and, where that left time, plans one step away: with few workers whole numbers change a lot.

    The few steps that may gain most are tried first, and where none of them helps, many.
    """
    found, tried = polished(search, found), TRIED
    while search.linear.asked < min(MAX_EXPLORED, EXPLORED_PER_LEVEL * len(search.problem.levels)):
        better = _near(search, found, tried)
        if better.value > found.value + GAIN:
            found, tried = better, TRIED
        elif tried == TRIED:
            tried = WIDE
        else:
            break
    return found


def _near(search: Search, found: Found, tried: int) -> Found:
    """The best polished plan with one gate less, or with one of `tried` sets one step away."""
    fewer, others = search.fewer(found), list[Found]()
    more = (search.free(gates, found.answer.staff) for gates, _ in search.promising(found, fewer, tried))
    for one in itertools.chain(fewer.values(), more):
        if one and search.linear.asked < LAST and (other := whole(search, one)):
            others.append(other)
    better = max(others, key=lambda other: other.value, default=found)
    return polished(search, better) if better.value > found.value - HOPE else found


def polished(search: Search, found: Found) -> Found:
    """Other thresholds of the same ways, or a worker moved to where one more adds most, as long as that helps."""
    while search.linear.asked < LAST:
        better = _changed(search, found)
        if better.value <= found.value + GAIN:
            return found
        found = better
    return found


def _changed(search: Search, found: Found) -> Found:
    """The best change of those that may gain more than the best so far: prices bound what a change can bring."""
    best = _shifted(search, found, SHIFTS, found)
    adds = {v: found.answer.pictures[v] * capacity.line.slope for v, capacity in found.capacities.items()}
    poor, rich = (sorted(adds, key=lambda v: sign * adds[v])[:MOVED] for sign in (1, -1))
    moved: list[Found] = []
    for a, b in itertools.product(poor, rich):
        counts = {a: found.capacities[a].workers - 1, b: found.capacities[b].workers + 1}
        if adds[b] > adds[a] + GAIN and (other := staffed(search, found, counts)):
            moved.append(other)
    for other in sorted(moved, key=lambda other: -other.value):
        best = max(best, _shifted(search, other, SHIFTS_OF_MOVED, best), key=lambda one: one.value)
    return best


def _shifted(search: Search, found: Found, most: int, best: Found) -> Found:
    """The best of `best`, this, and other gates of the same ways: of each those that may gain most, and some of all."""
    best = max(best, found, key=lambda one: one.value)
    band_gains = search.linear.gains_at_prices(search.prices(found))
    gains = np.maximum(0.0, band_gains - found.answer.bands).sum(axis=1)
    shifts: list[tuple[float, int, int]] = []  # bound on the gain, whose place, who comes
    for g in sorted(found.gates):
        way = [other for other in search.ways[way_of(search.problem.gates[g])] if gains[other] > GAIN and other != g]
        tried = [*sorted(way, key=lambda other: -gains[other])[:most], *way[:: max(1, len(way) // most)]]
        shifts += [(float(gains[other]), g, other) for other in dict.fromkeys(tried)]
    for gain, g, other in sorted(shifts, reverse=True):
        if found.value + gain <= best.value + GAIN or search.linear.asked >= LAST:
            break
        gates = found.gates - {g} | {other}
        if answer := search.linear.ask(gates, found.capacities):
            best = max(best, found._replace(gates=gates, answer=answer), key=lambda one: one.value)
    return best


def staffed(search: Search, found: Found, counts: dict[int, int]) -> Found | None:
    """Solve for the gates and modes of a plan with other numbers of workers; None where these cannot serve."""
    capacities = dict(found.capacities)
    for v, count in counts.items():
        line = max(search.problem.modes[v][found.modes[v]].lines, key=lambda line: throughput(line, count))
        rate = throughput(line, count)
        if rate <= 0:
            return None
        capacities[v] = VariantCapacity(line, count, rate)
    answer = search.linear.ask(found.gates, capacities)
    return found._replace(capacities=capacities, answer=answer) if answer else None


def planned(search: Search, found: Found) -> Solution:
    """The plan of whole workers."""
    problem, answer = search.problem, found.answer
    given = np.zeros((len(problem.shares), len(problem.options)))
    given[:, answer.options] = answer.given
    running = {
        v: Running(capacity.workers, capacity.line, problem.modes[v][found.modes[v]].sojourn_s)
        for v, capacity in found.capacities.items()
    }
    return solution_of(problem, given, answer.shed, running)
