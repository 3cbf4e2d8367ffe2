"""The joint problem at a price: what each way to serve gives and takes when a worker's time can be bought and sold."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from planner.joint.problem import SHED, Mode, Problem

SWEEPS = 3  # over all levels, until none changes its gate


class Timing(NamedTuple):
    """Which modes the first and the next variant of a way run in; -1: none."""

    first: int
    second: int


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
        worth = self.worth(price)
        open_ = np.flatnonzero(np.isin(self.gates, list(held.values())))
        needed = np.zeros(self.staff.shape[2])
        for c, share in enumerate(self.problem.shares if len(open_) else ()):
            p = open_[np.argmax(worth[open_, c])]
            if worth[p, c] > -SHED * self.problem.shed_weights[c]:
                needed += share * self.staff[p, c]
        return needed


def market(problem: Problem, timings: dict[tuple[int, int], Timing], counts: np.ndarray) -> Market:
    """The ways to serve where each variant works as well as `counts` of its workers do."""
    costs = [[staff_s(mode, counts[v]) for mode in problem.modes[v]] for v in range(len(problem.variants))]
    per_gate = np.full((len(problem.gates), len(problem.variants)), np.inf)
    for g, gate in enumerate(problem.gates):
        timing = timings[gate.level, gate.next_level]
        for level, mode in zip(problem.levels_of(gate), timing, strict=False):
            if mode >= 0:
                per_gate[g, problem.variant_of[level]] = costs[problem.variant_of[level]][mode]
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


def staff_s(mode: Mode, count: float) -> float:
    """Worker-seconds of one picture where `count` workers run in a mode; inf where they can promise nothing."""
    line = next((line for line in mode.lines if count < line.most + 1), mode.lines[-1] if mode.lines else None)
    if line is None:
        return float("inf")
    at = min(max(count, line.least), line.most)
    rate = line.slope * at - line.lost
    return at / rate if rate > 0 else float("inf")
