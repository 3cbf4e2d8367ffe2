"""PASM: with which probability a prompt of a class goes to which level: by ODA, or exactly where ODA errs."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from planner.solvers.levels.oda import NOTHING, Masses, aligned
from planner.solvers.levels.transport import cheapest

Rows = dict[str, dict[str, float]]  # class -> level -> probability, only positive ones


class Pasm(NamedTuple):
    """Source: ARGUS 4.3, Fig. 4."""

    rows: Rows  # each sums to 1
    degradation: float  # Eq. 2: quality the mean prompt loses by not getting its class's level
    how: str  # "ODA" | "transport LP", with what went wrong


def shift_map(
    levels: Sequence[str],
    wanted: Mapping[str, float],
    shares: Mapping[str, float],
    loss: Mapping[str, Mapping[str, float]],
) -> Pasm:
    """The shift map from H, `wanted`, to F, `shares`.

    `levels`: all, the slowest first; classes and F's levels are among them. `loss`: D, class -> level -> quality lost;
    what it does not name counts as 0, and slower levels never lose (Eq. 2). Sums of `wanted` and `shares` are 1.
    """
    h, f = (np.array([by_level.get(level, 0.0) for level in levels]) for by_level in (wanted, shares))
    cost = costs(levels, loss)
    masses, how = _least(h, f, cost)
    rows = {c: _row(masses[levels.index(c)], levels, shares) for c in wanted}
    return Pasm(rows, float((masses * cost).sum()), how)


def costs(levels: Sequence[str], loss: Mapping[str, Mapping[str, float]]) -> Masses:
    """Eq. 2's cost [class, level], slowest first: D to a faster level, 0 to its own or a slower one."""
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


def _least(h: Masses, f: Masses, cost: Masses) -> tuple[Masses, str]:
    by_oda = aligned(h, f)
    if is_convex(cost):
        return by_oda, "ODA"
    exact, trouble = cheapest(h, f, cost)
    if exact is None:
        return by_oda, f"ODA, as {trouble}"
    better = (exact * cost).sum() < (by_oda * cost).sum() - 1e-9
    return (exact, "transport LP") if better else (by_oda, "ODA")


def _row(mass: Masses, levels: Sequence[str], shares: Mapping[str, float]) -> dict[str, float]:
    """A class's probabilities; those of all prompts for a class that has no mass."""
    kept = {level: float(m) for level, m in zip(levels, mass, strict=True) if m > NOTHING and level in shares}
    total = sum(kept.values())
    return {level: m / total for level, m in kept.items()} or dict(shares)
