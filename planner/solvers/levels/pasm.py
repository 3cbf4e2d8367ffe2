"""PASM: with which probability a prompt of a class goes to which level: by ODA, or exactly where ODA errs.

`predicted` says which share of the coming prompts has which level as its optimal one, H(v). `aligned` is ODA.
`cheapest` is the exact least degradation of ARGUS's Eq. 2, as the transport problem that it is.

ODA: which class gives how much of itself to which level, so that the levels get what they can carry. Source: ARGUS 4.3,
Algorithm 1. As printed its rows do not sum to 1: it divides by the mass of before in one branch, by that of now in the
other, and never says what stays (planner/policies/SOURCES.md 6.1). Here the masses themselves move, and `shift_map`
divides them once. A move takes all classes on a level in proportion, which is the composition of step probabilities
that ARGUS gives.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pulp
from numpy.typing import NDArray

from planner.observation.observation import PROMPTS
from planner.solvers.milp import solve

Masses = NDArray[np.float64]  # [n classes, n levels], both slowest first
NOTHING = 1e-12  # mass that rounding leaves
PRIOR = 0.5  # prompts each class counts as seen before any was; ours, so that no class is impossible
BY_ODA, BY_LP = "ODA", "transport LP"
Rows = dict[str, dict[str, float]]  # class -> level -> probability, only positive ones


class Pasm(NamedTuple):
    """A matrix of shares from predicted class to level. Source: ARGUS 4.3, Fig. 4."""

    rows: Rows  # each sums to 1
    degradation: float  # Eq. 2: quality the mean prompt loses by not getting its class's level
    how: str  # BY_ODA | BY_LP, with what went wrong


def shift_map(
    levels: Sequence[str],
    wanted: Mapping[str, float],
    shares: Mapping[str, float],
    loss: Mapping[str, Mapping[str, float]],
) -> Pasm:
    """Compute the shift map from H, `wanted`, to F, `shares`.

    `levels`: all, the slowest first; classes and F's levels are among them. `loss`: D, class -> level -> quality lost;
    what it does not name counts as 0, and slower levels never lose (Eq. 2). Sums of `wanted` and `shares` are 1.
    """
    h, f = (np.array([by_level.get(level, 0.0) for level in levels]) for by_level in (wanted, shares))
    cost = costs(levels, loss)
    masses, how = _cheapest(h, f, cost)
    rows = {c: _row(masses[levels.index(c)], levels, shares) for c in wanted}
    return Pasm(rows, float((masses * cost).sum()), how)


def _cheapest(h: Masses, f: Masses, cost: Masses) -> tuple[Masses, str]:
    by_oda = aligned(h, f)
    if is_convex(cost):
        return by_oda, BY_ODA
    exact, trouble = cheapest(h, f, cost)
    if exact is None:
        return by_oda, f"{BY_ODA}, as {trouble}"
    better = (exact * cost).sum() < (by_oda * cost).sum() - 1e-9
    return (exact, BY_LP) if better else (by_oda, BY_ODA)


def _row(mass: Masses, levels: Sequence[str], shares: Mapping[str, float]) -> dict[str, float]:
    """A class's probabilities; those of all prompts for a class that has no mass."""
    kept = {level: float(m) for level, m in zip(levels, mass, strict=True) if m > NOTHING and level in shares}
    total = sum(kept.values())
    return {level: m / total for level, m in kept.items()} or dict(shares)


def costs(levels: Sequence[str], loss: Mapping[str, Mapping[str, float]]) -> Masses:
    """Return Eq. 2's cost [class, level], slowest first: D to a faster level, 0 to its own or a slower one."""
    n = len(levels)
    cost = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1, n):
            cost[i, j] = max(0.0, loss.get(levels[i], {}).get(levels[j], 0.0))
    return cost


def is_convex(cost: Masses) -> bool:
    """Whether ODA is optimal for any H and F: no two prompts would rather swap their levels.

    c(i, j) + c(i+1, j+1) <= c(i, j+1) + c(i+1, j) for all neighbours, Monge's condition. It holds where D grows with
    the distance linearly or, as ARGUS says, super-linearly. ODA then differs from the north-west corner rule, which is
    optimal, only by swaps on slower levels, which cost nothing.
    """
    straight, crossed = cost[:-1, :-1] + cost[1:, 1:], cost[:-1, 1:] + cost[1:, :-1]
    return bool((straight <= crossed + 1e-9 * (1 + cost.max(initial=0.0))).all())


def aligned(wanted: NDArray[np.float64], carried: NDArray[np.float64]) -> Masses:
    """Masses m with row sums `wanted` (H) and column sums `carried` (F), both [n], slowest first and summing to 1.

    From the fastest level down: too much goes one level slower, where it loses nothing; what lacks is taken from the
    nearest slower level that has any.

            v1 <-- v2 <-- v3      too much on v3: push it to v2
            v1 --> v2 --> v3      too little on v3: pull from v2, then from v1
    """
    m = np.diag(np.asarray(wanted, dtype=np.float64))
    for level in range(len(carried) - 1, 0, -1):
        surplus = m[:, level].sum() - carried[level]
        if surplus > 0:
            _move(m, level, level - 1, surplus)
        for slower in range(level - 1, -1, -1):
            lacking = carried[level] - m[:, level].sum()
            if lacking <= NOTHING:
                break
            _move(m, slower, level, lacking)
    return m


def _move(m: Masses, source: int, target: int, amount: float) -> None:
    there = m[:, source].sum()
    if there > NOTHING:
        moved = m[:, source] * min(1.0, amount / there)
        m[:, target] += moved
        m[:, source] -= moved


def cheapest(wanted: NDArray[np.float64], carried: NDArray[np.float64], cost: Masses) -> tuple[Masses | None, str]:
    """Masses m >= 0 with row sums `wanted` and column sums `carried` of the least sum(m x cost); and "".

    `cost` [n, n] >= 0: what a prompt of class i loses on level j. (None, why) where the solver gives no answer.
    Source: ARGUS 4.3, Eq. 2.
    """
    rows, columns = range(len(wanted)), range(len(carried))
    scale = float(cost.max()) or 1.0
    problem = pulp.LpProblem("eq2", pulp.LpMinimize)
    m = [[problem.add_variable(f"m{i}_{j}", 0) for j in columns] for i in rows]
    problem += pulp.lpSum(float(cost[i, j]) / scale * m[i][j] for i in rows for j in columns)
    for i in rows:
        problem += pulp.lpSum(m[i]) == float(wanted[i])
    for j in columns[1:]:  # the first follows from the rest; stated too, rounding could make it infeasible
        problem += pulp.lpSum(row[j] for row in m) == float(carried[j])
    done = solve(problem)
    if not done.is_found:
        return None, done.trouble
    return np.array([[max(0.0, cell.value() or 0.0) for cell in row] for row in m]), ""


def predicted(seen: Mapping[str, float], classes: Sequence[str], window: int = PROMPTS) -> dict[str, float]:
    """H over `classes`, all positive, summing to 1, from the shares `seen` in the last `window` prompts.

    Additive smoothing: (window x share + PRIOR) / (window x share of known classes + PRIOR x classes), which moves no
    share by more than classes / (2 x window). Labels that are no class, and shares that are no shares, count as unseen;
    with nothing seen all classes are alike. Source: ARGUS 4.2, "Workload Distribution Predictor"; smoothing is ours.
    """
    counts = {c: window * share + PRIOR if (share := seen.get(c, 0.0)) > 0 else PRIOR for c in classes}
    total = math.fsum(counts.values())
    return {c: count / total for c, count in counts.items()}
