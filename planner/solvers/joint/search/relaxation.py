"""The start of the search: gates and workers of a good plan, before any program is solved.

A Lagrangian relaxation: workers are alike, so that without whole numbers the problem has one scarce good, and at a
price for it each band takes the way that is best. One gate a level is kept by changing one level after the other while
that helps. The answer is no plan: it says where the search should begin.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from planner.solvers.joint.program.capacity import staff_s
from planner.solvers.joint.program.problem import SHED, Problem

HALVINGS, REFINING_HALVINGS = 7, 5  # of the price's range, and of what is near the first answer
LOW, HIGH = -4.0, 6.0  # that range: powers of ten, in spans of quality per share of all workers
NEAR = 0.7  # powers of ten that the price may change by better counts
ESCALATED_SHARES = (0.05, 0.5)  # of a level's drafts, for each of which a way's latency targets are chosen
SWEEPS = 3  # over all levels, until none changes its gate
STARTS = 4  # of those at a price
MAX_EXHAUSTIVE_LEVELS = 4  # up to which every set of levels is a start too

Gates = frozenset[int]


class Timing(NamedTuple):
    """The modes of the first and the next variant of a path; -1 for none."""

    first: int
    second: int


Timings = dict[tuple[int, int], tuple[Timing, ...]]
"""(level, next level) -> the latency targets to choose from, one or more."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The value and cost of each way to serve at a price of a worker's time.

    Ways that no worker can go are left out; options are in the order of their gates.
    """

    problem: Problem
    gates: np.ndarray  # [P] of each option, rising
    merit: np.ndarray  # [P, C]
    staff: np.ndarray  # [P, C, V] workers, if all demand were of the band and served this way
    total: np.ndarray  # [P, C] of all variants
    rows: np.ndarray  # [G] the gates, each once
    firsts: np.ndarray  # [G] the first option of each
    levels: tuple[tuple[int, np.ndarray, np.ndarray], ...]  # level, its gates as places in `rows`, their next levels

    def net_merit(self, price: float) -> np.ndarray:
        """[P, C] merit net of the cost of work. `price`: merit per share of all workers."""
        return np.asarray(self.merit - price / max(self.problem.workers, 1) * self.total)

    def settle(self, price: float, start: dict[int, int]) -> dict[int, int]:
        """level -> gate: at the price no level alone can change to a better gate. Begins at `start`."""
        if not len(self.rows):
            return {}
        best = np.maximum.reduceat(self.net_merit(price), self.firsts, axis=0)  # [G, C]
        shares, count = self.problem.shares, len(self.problem.levels)
        taken = np.full((count + 1, len(shares)), -np.inf)  # by level; the last row: shed
        taken[-1] = -SHED * self.problem.shed_weights
        next_of = np.full(count, -1)  # of what is held
        held, own = dict(start), [best[rows] for _, rows, _ in self.levels]
        for level, gate in held.items():
            taken[level], next_of[level] = best[np.searchsorted(self.rows, gate)], self.problem.gates[gate].next_level
        for _ in range(SWEEPS):
            before = dict(held)
            for (level, rows, nexts), merit in zip(self.levels, own, strict=True):
                taken[level], next_of[level] = -np.inf, -1
                free = nexts < 0  # escalated images are not judged again
                if level not in next_of:
                    free = free | (next_of[nexts] < 0)
                gains = np.where(free, np.maximum(np.maximum.reduce(taken), merit) @ shares, -np.inf)
                at = int(gains.argmax())
                taken[level], next_of[level] = merit[at], nexts[at]
                held[level] = int(self.rows[rows[at]])
            if held == before:
                break
        return held

    def needed(self, price: float, held: dict[int, int]) -> np.ndarray:
        """[V] workers needed if each band takes the best of what is held, or is shed."""
        needed, merit = np.zeros(self.staff.shape[2]), self.net_merit(price)
        open_ = np.flatnonzero(np.isin(self.gates, list(held.values())))
        for c, weight in enumerate(self.problem.shed_weights if len(open_) else ()):
            p = int(open_[np.argmax(merit[open_, c])])
            if merit[p, c] > -SHED * weight:
                needed += self.problem.shares[c] * self.staff[p, c]
        return needed


def relaxation_of(problem: Problem, timings: Timings, counts: np.ndarray) -> Relaxation:
    """The ways to serve where each variant works as well as `counts` of its workers do."""
    costs = [[staff_s(mode, counts[v]) for mode in problem.modes[v]] for v in range(len(problem.levels))]
    work = np.zeros((len(problem.gates), len(problem.levels)))  # of a gate's last option
    work[[option.gate for option in problem.options]] = np.einsum("c,ocv->ov", problem.shares, problem.load)
    per_gate = np.full(work.shape, np.inf)
    ways: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for g, gate in enumerate(problem.gates):
        ways[gate[:2]].append(g)
    for way, gates in ways.items():
        at = [level for level in way if level >= 0]
        per_gate[np.ix_(gates, at)] = _costs(timings[way], [costs[v] for v in at], work[np.ix_(gates, at)])
    gate_of = np.array([option.gate for option in problem.options], dtype=int)
    cost = np.broadcast_to(per_gate[gate_of][:, None, :], problem.load.shape)
    per_image = np.where(problem.load > 0, cost, 0.0)
    options = np.flatnonzero(np.isfinite(per_image).all(axis=(1, 2)))
    options = options[np.argsort(gate_of[options], kind="stable")]
    staff = problem.demand_rps * problem.load[options] * per_image[options]
    rows, firsts = np.unique(gate_of[options], return_index=True)
    level_of, next_of = (np.array([problem.gates[g][at] for g in rows], dtype=int) for at in (0, 1))
    places = [(int(level), np.flatnonzero(level_of == level)) for level in np.unique(level_of)]
    return Relaxation(
        problem, gate_of[options], problem.merit[options], staff, staff.sum(axis=2), rows, firsts,
        levels=tuple((level, at, next_of[at]) for level, at in places),
    )  # fmt: skip


def _costs(timings: Sequence[Timing], costs: Sequence[Sequence[float]], work: np.ndarray) -> np.ndarray:
    """Return [G, n] worker-seconds of an image on each of a path's n variants, under targets for each gate's work.

    `costs`: of each variant's modes; `work`: [G, n] images a request.
    """
    rows = np.array(
        [[c[mode] if mode >= 0 else np.inf for c, mode in zip(costs, timing, strict=False)] for timing in timings]
    )
    taken = np.where(work[:, None] > 0, rows, 0.0) * work[:, None]  # [G, timings, n]
    return np.asarray(rows[taken.sum(axis=2).argmin(axis=1)])


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """A guess of a good plan. Prices are of keeping all workers busy, in spans of quality."""

    relaxation: Relaxation
    counts: np.ndarray  # [V] workers, 1 at least
    price: float  # at which all workers are just busy


def relaxed(problem: Problem, timings: Timings, counts: np.ndarray) -> Guess:
    """Return the guess, begun with the targets of these worker counts. Takes milliseconds for hundreds of gates."""
    priced = relaxation_of(problem, timings, counts)
    price, needed = _within(priced, LOW, HIGH, HALVINGS)
    counts = np.maximum(needed, 1.0)
    priced = relaxation_of(problem, timings_of(problem, counts), counts)
    at = math.log10(price)
    price, needed = _within(priced, max(LOW, at - NEAR), min(HIGH, at + NEAR), REFINING_HALVINGS)
    return Guess(priced, np.maximum(needed, 1.0), price)


def _within(priced: Relaxation, low: float, high: float, halvings: int) -> tuple[float, np.ndarray]:
    """The least price, within powers of ten, that the workers can do, and the workers needed there, [V].

    Between two prices what is held jumps: the workers are then a mixture of those above and below that uses them all.
    """
    workers = priced.problem.workers
    held = priced.settle(10**low, {})
    beyond = priced.needed(10**low, held)
    if beyond.sum() <= workers:
        return 10**low, beyond
    within = np.zeros_like(beyond)
    for _ in range(halvings):
        price = 10 ** ((low + high) / 2)
        held = priced.settle(price, held)
        takes = priced.needed(price, held)
        if takes.sum() <= workers:
            high, within = (low + high) / 2, takes
        else:
            low, beyond = (low + high) / 2, takes
    mixed = (workers - within.sum()) / (beyond.sum() - within.sum())
    return 10**high, within + mixed * (beyond - within)


def timings_of(problem: Problem, counts: np.ndarray) -> Timings:
    """For each way the latency targets that cost least, if few or many of its drafts were escalated."""
    costs = [[staff_s(mode, counts[v]) for mode in problem.modes[v]] for v in range(len(problem.levels))]
    found: Timings = {}
    for gate in problem.gates:
        way = gate.level, gate.next_level
        if way not in found:
            left_s = problem.slo_s - gate.extra_s + 1e-9
            found[way] = tuple(
                dict.fromkeys(_cheapest(problem, way, left_s, costs, share) for share in ESCALATED_SHARES)
            )
    return found


def _cheapest(problem: Problem, way: tuple[int, int], left_s: float, costs: list[list[float]], share: float) -> Timing:
    v, h = way
    seconds = [(-1, 0.0, 0.0)]  # of no next level: mode, latency target, cost
    if h >= 0:
        seconds = [(j, mode.sojourn_s, share * costs[h][j]) for j, mode in enumerate(problem.modes[h])]
    choices = [
        (costs[v][i] + cost, i, j)
        for i, mode in enumerate(problem.modes[v])
        for j, target_s, cost in seconds
        if mode.first_s + target_s <= left_s
    ]
    return Timing(*min(choices, default=(0.0, -1, -1))[1:])


class Start(NamedTuple):
    """Gates to begin with."""

    gates: Gates
    taken: Gates  # those that some band takes: what is left where there are too few workers to serve all


def starts(priced: Relaxation, price: float) -> list[Start]:
    """Return local optima of single changes at the price of a worker, begun with every choice of escalations."""
    if not len(priced.rows):
        return []
    best = np.maximum.reduceat(priced.net_merit(price), priced.firsts, axis=0)  # [G, C]
    begun: list[dict[int, int]] = [{}]
    for level, rows, nexts in priced.levels:
        for target in np.unique(nexts[nexts >= 0]):
            own = rows[nexts == target]
            begun.append({level: int(priced.rows[own[np.argmax(best[own] @ priced.problem.shares)]])})
    found: dict[Start, float] = {}
    for start in begun:
        gates = np.array(list(priced.settle(price, start).values()))
        top = best[np.searchsorted(priced.rows, gates)]
        taken = frozenset(gates[top.argmax(axis=0)].tolist())
        found[Start(frozenset(gates.tolist()), taken)] = float(top.max(axis=0) @ priced.problem.shares)
    return sorted(found, key=lambda one: -found[one])[:STARTS]


def straight_only(problem: Problem) -> list[Start]:
    """Return every set of levels without escalations; none if there are too many levels."""
    plain = [g for g, gate in enumerate(problem.gates) if gate.next_level < 0]
    sizes = range(1, len(plain) + 1) if len(plain) <= MAX_EXHAUSTIVE_LEVELS else ()
    sets = (frozenset(some) for size in sizes for some in itertools.combinations(plain, size))
    return [Start(gates, gates) for gates in sets]
