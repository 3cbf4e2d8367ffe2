"""The joint problem at a price: what each way to serve gives and takes when a worker's time can be bought and sold."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from planner.solvers.joint.capacity import staff_s
from planner.solvers.joint.problem import SHED, Problem

SWEEPS = 3  # over all levels, until none changes its gate


class Timing(NamedTuple):
    """Which modes the first and the next variant of a way run in; -1: none."""

    first: int
    second: int


Timings = dict[tuple[int, int], tuple[Timing, ...]]
"""(level, next level) -> the promises to choose from, one or more."""


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """Ways to serve, those that no worker can go left out; options are in the order of their gates."""

    problem: Problem
    gates: np.ndarray  # [P] of each option, rising
    merit: np.ndarray  # [P, C]
    staff: np.ndarray  # [P, C, V] workers, if all demand were of the band and served this way
    total: np.ndarray  # [P, C] of all variants
    rows: np.ndarray  # [G] the gates, each once
    firsts: np.ndarray  # [G] the first option of each
    levels: tuple[tuple[int, np.ndarray, np.ndarray], ...]  # level, its gates as places in `rows`, their next levels

    def worth(self, price: float) -> np.ndarray:
        """[P, C] merit less what the work costs. `price`: merit per share of all workers."""
        return np.asarray(self.merit - price / max(self.problem.workers, 1) * self.total)

    def settle(self, price: float, start: dict[int, int]) -> dict[int, int]:
        """level -> gate: at the price no level alone can change to a better gate. Begins at `start`."""
        if not len(self.rows):
            return {}
        best = np.maximum.reduceat(self.worth(price), self.firsts, axis=0)  # [G, C]
        shares, count = self.problem.shares, len(self.problem.levels)
        taken = np.full((count + 1, len(shares)), -np.inf)  # by level; the last row: shed
        taken[-1] = -SHED * self.problem.shed_weights
        next_of = np.full(count, -1)  # of what is held
        held = dict(start)
        for level, gate in held.items():
            taken[level], next_of[level] = best[np.searchsorted(self.rows, gate)], self.problem.gates[gate].next_level
        for _ in range(SWEEPS):
            before = dict(held)
            for level, rows, nexts in self.levels:
                taken[level], next_of[level] = -np.inf, -1
                free = nexts < 0  # nothing painted again is judged again
                if level not in next_of:
                    free = free | (next_of[nexts] < 0)
                gains = np.where(free, np.maximum(taken.max(axis=0), best[rows]) @ shares, -np.inf)
                at = int(np.argmax(gains))
                taken[level], next_of[level] = best[rows[at]], nexts[at]
                held[level] = int(self.rows[rows[at]])
            if held == before:
                break
        return held

    def needed(self, price: float, held: dict[int, int]) -> np.ndarray:
        """[V] workers needed if each band takes the best of what is held, or is shed."""
        needed, worth = np.zeros(self.staff.shape[2]), self.worth(price)
        open_ = np.flatnonzero(np.isin(self.gates, list(held.values())))
        for c, weight in enumerate(self.problem.shed_weights if len(open_) else ()):
            p = int(open_[np.argmax(worth[open_, c])])
            if worth[p, c] > -SHED * weight:
                needed += self.problem.shares[c] * self.staff[p, c]
        return needed


def market(problem: Problem, timings: Timings, counts: np.ndarray) -> Market:
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
    per_picture = np.where(problem.load > 0, cost, 0.0)
    options = np.flatnonzero(np.isfinite(per_picture).all(axis=(1, 2)))
    options = options[np.argsort(gate_of[options], kind="stable")]
    staff = problem.demand_rps * problem.load[options] * per_picture[options]
    rows, firsts = np.unique(gate_of[options], return_index=True)
    level_of, next_of = (np.array([problem.gates[g][at] for g in rows], dtype=int) for at in (0, 1))
    places = [(int(level), np.flatnonzero(level_of == level)) for level in np.unique(level_of)]
    return Market(
        problem, gate_of[options], problem.merit[options], staff, staff.sum(axis=2), rows, firsts,
        levels=tuple((level, at, next_of[at]) for level, at in places),
    )  # fmt: skip


def _costs(timings: Sequence[Timing], costs: Sequence[Sequence[float]], work: np.ndarray) -> np.ndarray:
    """[G, n] worker-seconds of a picture on each of a way's n variants, under the promises that suit each gate's work.

    `costs`: of each variant's modes; `work`: [G, n] pictures a request.
    """
    rows = np.array(
        [[c[mode] if mode >= 0 else np.inf for c, mode in zip(costs, timing, strict=False)] for timing in timings]
    )
    taken = np.where(work[:, None] > 0, rows, 0.0) * work[:, None]  # [G, timings, n]
    return np.asarray(rows[taken.sum(axis=2).argmin(axis=1)])
