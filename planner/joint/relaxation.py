"""Which gates and how many workers a good plan has, before any program is solved: one price for all workers.

Workers are alike, so that without whole numbers the problem has one scarce good and each band takes the way that is
best at its price. One gate a level is kept by changing one level after the other while that helps. The answer is no
plan: it says where the program should look.
"""

import math
from dataclasses import dataclass

import numpy as np

from planner.joint.market import Market, Timing, Timings, market, staff_s
from planner.joint.problem import Problem

PRICES = 10  # halvings of the price's range
LOW, HIGH = -4.0, 6.0  # that range: powers of ten, in spans of quality per share of all workers
ROUNDS = 2  # of prices, counts, and costs at those counts
AGAIN = (0.05, 0.5)  # shares of drafts painted again, for which a way's promises are chosen
OFFERED = 6  # of the last prices tried, whose gates the program may choose from


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """Where a good plan lies."""

    gates: frozenset[int]  # worth offering to the program
    counts: tuple[float, ...]  # workers per variant, 1 at least
    timings: Timings
    price: float  # of keeping all workers busy, in spans: the highest at which quality makes no difference yet


def relaxed(problem: Problem) -> Guess:
    """The guess. Costs some milliseconds for hundreds of gates."""
    counts = np.full(len(problem.variants), max(problem.workers / 4, 1.0))
    for _ in range(ROUNDS):
        timings = timings_of(problem, counts)
        offers = market(problem, timings, counts)
        tried, price, needed = _within(offers)
        counts = np.maximum(needed, 1.0)
    near = tried[-OFFERED:]
    if problem.slack > 0:
        thrifty, price = _thrifty(offers, price, tried[-1])
        near += thrifty[-OFFERED:]
    gates = frozenset(g for held in near for g in held.values())
    return Guess(gates, tuple(float(n) for n in counts), timings, price)


def _within(offers: Market) -> tuple[list[dict[int, int]], float, np.ndarray]:
    """What is held at each price tried, towards the least that the workers can do; that price, and workers, [V].

    Between two prices what is held jumps: the workers are then a mixture of those above and below that uses them all.
    """
    workers = offers.problem.workers
    held = offers.settle(0.0, {})
    tried, beyond = [held], offers.needed(0.0, held)
    if beyond.sum() <= workers:
        return tried, 10**LOW, beyond
    within = np.zeros_like(beyond)
    low, high = LOW, HIGH
    for _ in range(PRICES):
        price = 10 ** ((low + high) / 2)
        held = offers.settle(price, held)
        tried.append(held)
        takes = offers.needed(price, held)
        if takes.sum() <= workers:
            high, within = (low + high) / 2, takes
        else:
            low, beyond = (low + high) / 2, takes
    mixed = (workers - within.sum()) / (beyond.sum() - within.sum())
    return tried, 10**high, within + mixed * (beyond - within)


def _thrifty(offers: Market, price: float, held: dict[int, int]) -> tuple[list[dict[int, int]], float]:
    """What is held at higher prices, towards the highest that costs no more quality than makes a difference; that."""
    least = offers.gained(price, held) - offers.problem.slack
    low, high, tried = math.log10(price), HIGH, []
    for _ in range(PRICES):
        held = offers.settle(10 ** ((low + high) / 2), held)
        tried.append(held)
        if offers.gained(10 ** ((low + high) / 2), held) >= least:
            low = (low + high) / 2
        else:
            high = (low + high) / 2
    return tried, 10**low


def timings_of(problem: Problem, counts: np.ndarray) -> Timings:
    """For each way the promises that cost least, if few or many of the drafts were painted again."""
    costs = [[staff_s(mode, counts[v]) for mode in problem.modes[v]] for v in range(len(problem.variants))]
    found: Timings = {}
    for gate in problem.gates:
        way = gate.level, gate.next_level
        if way not in found:
            left_s = problem.slo_s - gate.extra_s + 1e-9
            found[way] = tuple(dict.fromkeys(_cheapest(problem, way, left_s, costs, share) for share in AGAIN))
    return found


def _cheapest(problem: Problem, way: tuple[int, int], left_s: float, costs: list[list[float]], share: float) -> Timing:
    v, h = (problem.variant_of[level] if level >= 0 else -1 for level in way)
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
