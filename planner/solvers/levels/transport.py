"""The exact least degradation of ARGUS's Eq. 2, as the transport problem that it is."""

import numpy as np
import pulp
from numpy.typing import NDArray

from planner.solvers.levels.oda import Masses
from planner.solvers.milp import solve


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
