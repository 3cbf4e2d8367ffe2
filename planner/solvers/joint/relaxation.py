"""Which gates and how many workers a good plan has, before any program is solved: one price for all workers.

Workers are alike, so that without whole numbers the problem has one scarce good and each band takes the way that is
best at its price. One gate a level is kept by changing one level after the other while that helps. The answer is no
plan: it says where the search should begin.
"""

import math
from dataclasses import dataclass

import numpy as np

from planner.solvers.joint.capacity import staff_s
from planner.solvers.joint.market import Market, Timing, Timings, market
from planner.solvers.joint.problem import Problem

PRICES, AGAIN_PRICES = 7, 5  # halvings of the price's range, and of what is near the first answer
LOW, HIGH = -4.0, 6.0  # that range: powers of ten, in spans of quality per share of all workers
NEAR = 0.7  # powers of ten that the price may change by better counts
AGAIN = (0.05, 0.5)  # shares of drafts painted again, for which a way's promises are chosen


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """Where a good plan lies. Prices are of keeping all workers busy, in spans of quality."""

    offers: Market
    counts: np.ndarray  # [V] workers, 1 at least
    price: float  # at which all workers are just busy


def relaxed(problem: Problem, timings: Timings, counts: np.ndarray) -> Guess:
    """The guess, begun with these promises for workers so many. Costs some milliseconds for hundreds of gates."""
    offers = market(problem, timings, counts)
    price, needed = _within(offers, LOW, HIGH, PRICES)
    counts = np.maximum(needed, 1.0)
    offers = market(problem, timings_of(problem, counts), counts)
    at = math.log10(price)
    price, needed = _within(offers, max(LOW, at - NEAR), min(HIGH, at + NEAR), AGAIN_PRICES)
    return Guess(offers, np.maximum(needed, 1.0), price)


def _within(offers: Market, low: float, high: float, halvings: int) -> tuple[float, np.ndarray]:
    """The least price, within powers of ten, that the workers can do, and the workers needed there, [V].

    Between two prices what is held jumps: the workers are then a mixture of those above and below that uses them all.
    """
    workers = offers.problem.workers
    held = offers.settle(10**low, {})
    beyond = offers.needed(10**low, held)
    if beyond.sum() <= workers:
        return 10**low, beyond
    within = np.zeros_like(beyond)
    for _ in range(halvings):
        price = 10 ** ((low + high) / 2)
        held = offers.settle(price, held)
        takes = offers.needed(price, held)
        if takes.sum() <= workers:
            high, within = (low + high) / 2, takes
        else:
            low, beyond = (low + high) / 2, takes
    mixed = (workers - within.sum()) / (beyond.sum() - within.sum())
    return 10**high, within + mixed * (beyond - within)


def timings_of(problem: Problem, counts: np.ndarray) -> Timings:
    """For each way the promises that cost least, if few or many of the drafts were painted again."""
    costs = [[staff_s(mode, counts[v]) for mode in problem.modes[v]] for v in range(len(problem.levels))]
    found: Timings = {}
    for gate in problem.gates:
        way = gate.level, gate.next_level
        if way not in found:
            left_s = problem.slo_s - gate.extra_s + 1e-9
            found[way] = tuple(dict.fromkeys(_cheapest(problem, way, left_s, costs, share) for share in AGAIN))
    return found


def _cheapest(problem: Problem, way: tuple[int, int], left_s: float, costs: list[list[float]], share: float) -> Timing:
    v, h = way
    seconds = [(-1, 0.0, 0.0)]  # of no next level: mode, promise, cost
    if h >= 0:
        seconds = [(j, mode.sojourn_s, share * costs[h][j]) for j, mode in enumerate(problem.modes[h])]
    choices = [
        (costs[v][i] + cost, i, j)
        for i, mode in enumerate(problem.modes[v])
        for j, promise_s, cost in seconds
        if mode.first_s + promise_s <= left_s
    ]
    return Timing(*min(choices, default=(0.0, -1, -1))[1:])
