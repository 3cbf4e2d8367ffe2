"""PuLP's default solver (CBC, a process of its own) behind one call that answers instead of raising."""

from collections.abc import Sequence
from typing import NamedTuple

import pulp

LIMIT_S = 2.0  # then the best found so far counts
CBC = pulp.PULP_CBC_CMD.pulp_cbc_path  # comes with PuLP 3; for PuLP 4 install pulp[cbc]


class Solved(NamedTuple):
    """The outcome of a solve: whether there is an answer, and why there is none or it may not be the best."""

    is_found: bool  # the problem's variables hold an answer
    trouble: str = ""  # why there is none, or why it may not be the best, for operators; "": an optimum


def solve(problem: pulp.LpProblem, limit_s: float = LIMIT_S, options: Sequence[str] = ()) -> Solved:
    """Solve a problem in place. The best that CBC found by `limit_s` is an answer. `options`: CBC's, as "cuts off"."""
    try:
        # no `threads`: with one, a CBC process in a hundred stands still for ten seconds, past its limit (measured)
        command = pulp.COIN_CMD(path=CBC, msg=False, timeLimit=limit_s, options=list(options))
        problem.solve(command)
    except Exception as error:  # whatever a solver does, planning goes on: the caller plans without and says so
        return Solved(False, f"the solver failed ({type(error).__name__}: {error})")
    if problem.sol_status == pulp.LpSolutionOptimal:
        return Solved(True)
    if problem.sol_status == pulp.LpSolutionIntegerFeasible:
        return Solved(True, f"the solver was stopped after {limit_s:g} s")
    return Solved(False, f"the solver found no plan ({pulp.LpSolution[problem.sol_status].lower()})")
