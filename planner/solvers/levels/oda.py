"""ODA: which class gives how much of itself to which level, so that the levels get what they can carry.

Source: ARGUS 4.3, Algorithm 1. As printed its rows do not sum to 1: it divides by the mass of before in one branch, by
that of now in the other, and never says what stays (facts/mission-table.md A.1, A.2). Here the masses themselves move,
and `pasm` divides them once. A move takes all classes on a level in proportion, which is the composition of step
probabilities that ARGUS gives.
"""

import numpy as np
from numpy.typing import NDArray

Masses = NDArray[np.float64]  # [n classes, n levels], both slowest first
NOTHING = 1e-12  # mass that rounding leaves


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
