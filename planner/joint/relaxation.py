"""Which gates and how many workers a good plan has, before any program is solved: one price for all workers.

Workers are alike, so that without whole numbers the problem has one scarce good and each band takes the way that is
best at its price. One gate a level is kept by changing one level after the other while that helps. The answer is no
plan: it says where the program should look.
"""

from dataclasses import dataclass

import numpy as np

from planner.joint.market import Timing, market, staff_s
from planner.joint.problem import Problem

PRICES = 12  # halvings of the price's range
LOW, HIGH = -4.0, 6.0  # that range: powers of ten, in spans of quality per share of all workers
ROUNDS = 2  # of prices, counts, and costs at those counts
OFFERED = 6  # of the last prices tried, whose gates the program may choose from


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """Where a good plan lies."""

    gates: frozenset[int]  # worth offering to the program
    counts: tuple[float, ...]  # workers per variant, 1 at least
    timings: dict[tuple[int, int], Timing]  # (level, next level) -> modes


def relaxed(problem: Problem) -> Guess:
    """The guess. Costs some milliseconds for hundreds of gates."""
    counts = np.full(len(problem.variants), max(problem.workers / 4, 1.0))
    for _ in range(ROUNDS):
        timings = timings_of(problem, counts)
        tried, needed = _prices(problem, timings, counts)
        counts = np.maximum(needed, 1.0)
    gates = frozenset(g for held in tried[-OFFERED:] for g in held.values())
    return Guess(gates, tuple(float(n) for n in counts), timings)


def _prices(
    problem: Problem, timings: dict[tuple[int, int], Timing], counts: np.ndarray
) -> tuple[list[dict[int, int]], np.ndarray]:
    """What is held at each price tried, towards the least that the workers can do; and the workers that takes, [V].

    Between two prices what is held jumps: the workers are then a mixture of those above and below that uses them all.
    """
    offers = market(problem, timings, counts)
    held = offers.settle(0.0, {})
    tried, beyond = [held], offers.needed(0.0, held)
    if beyond.sum() <= problem.workers:
        return tried, beyond
    within = np.zeros_like(beyond)
    low, high = LOW, HIGH
    for _ in range(PRICES):
        price = 10 ** ((low + high) / 2)
        held = offers.settle(price, held)
        tried.append(held)
        takes = offers.needed(price, held)
        if takes.sum() <= problem.workers:
            high, within = (low + high) / 2, takes
        else:
            low, beyond = (low + high) / 2, takes
    mixed = (problem.workers - within.sum()) / (beyond.sum() - within.sum())
    return tried, within + mixed * (beyond - within)


def timings_of(problem: Problem, counts: np.ndarray) -> dict[tuple[int, int], Timing]:
    """For each way the promises that cost least, if half of the pictures were painted again."""
    costs = [[staff_s(mode, counts[v]) for mode in problem.modes[v]] for v in range(len(problem.variants))]
    found: dict[tuple[int, int], Timing] = {}
    for gate in problem.gates:
        way = gate.level, gate.next_level
        if way not in found:
            found[way] = _cheapest(problem, way, problem.slo_s - gate.extra_s + 1e-9, costs)
    return found


def _cheapest(problem: Problem, way: tuple[int, int], left_s: float, costs: list[list[float]]) -> Timing:
    v, h = (problem.variant_of[level] if level >= 0 else -1 for level in way)
    seconds = [(-1, 0.0, 0.0)]  # of no next level: mode, promise, cost
    if h >= 0:
        seconds = [(j, mode.sojourn_s, costs[h][j] / 2) for j, mode in enumerate(problem.modes[h])]
    choices = [
        (costs[v][i] + cost, i, j)
        for i, mode in enumerate(problem.modes[v])
        for j, promise_s, cost in seconds
        if mode.sojourn_s + promise_s <= left_s
    ]
    return Timing(*min(choices, default=(0.0, -1, -1))[1:])
