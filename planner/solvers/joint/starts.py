"""Sets of gates for the search to begin with."""

import itertools

import numpy as np

from planner.solvers.joint.market import Market
from planner.solvers.joint.problem import Problem
from planner.solvers.joint.search import Gates

STARTS = 4  # of those at a price
FEW = 4  # levels, of which every set is a start too


def starts(offers: Market, price: float) -> list[Gates]:
    """What single changes do not better at the price of a worker, begun with every way to paint again."""
    if not len(offers.rows):
        return []
    best = np.maximum.reduceat(offers.worth(price), offers.firsts, axis=0)  # [G, C]
    begun: list[dict[int, int]] = [{}]
    for level, rows, nexts in offers.levels:
        for target in np.unique(nexts[nexts >= 0]):
            own = rows[nexts == target]
            begun.append({level: int(offers.rows[own[np.argmax(best[own] @ offers.problem.shares)]])})
    found: dict[Gates, float] = {}
    for start in begun:
        gates = list(offers.settle(price, start).values())
        top = best[np.searchsorted(offers.rows, gates)]
        found[frozenset(gates)] = float(top.max(axis=0) @ offers.problem.shares)
    return sorted(found, key=lambda gates: -found[gates])[:STARTS]


def straight_only(problem: Problem) -> list[Gates]:
    """Every set of levels whose pictures are all kept, where there are few."""
    plain = [g for g, gate in enumerate(problem.gates) if gate.next_level < 0]
    sizes = range(1, len(plain) + 1) if len(plain) <= FEW else ()
    return [frozenset(some) for size in sizes for some in itertools.combinations(plain, size)]
