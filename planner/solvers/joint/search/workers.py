"""From gates with workers that are not whole to a plan of whole workers."""

import math

import numpy as np

from planner.solvers.joint.one_level import throughput
from planner.solvers.joint.program.problem import Running, Solution, solution_of
from planner.solvers.joint.search.gates import Found, Search
from planner.solvers.joint.search.linear import VariantCapacity


def whole(search: Search, found: Found) -> Found | None:
    """Whole workers, one variant after the other, the rest free: the one nearest to a whole number first."""
    while free := [v for v, capacity in found.capacities.items() if not capacity.workers]:
        staff = found.answer.staff
        v = min(free, key=lambda v: abs(float(staff[v]) - round(float(staff[v]))))
        near = dict.fromkeys([max(1, math.floor(staff[v] + 1e-6)), math.ceil(staff[v] - 1e-6)])
        tried = [other for count in near if (other := _staffed(search, found, v, count))]
        if not tried:
            return None
        found = max(tried, key=lambda other: other.value)
    return found


def _staffed(search: Search, found: Found, v: int, count: int) -> Found | None:
    """Solve for the gates and modes of a plan with `count` workers of a variant; None if these cannot serve."""
    line = max(search.problem.modes[v][found.modes[v]].lines, key=lambda line: throughput(line, count))
    rate = throughput(line, count)
    if rate <= 0:
        return None
    capacities = found.capacities | {v: VariantCapacity(line, count, rate)}
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
