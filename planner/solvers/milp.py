"""Programs in PuLP solved by HiGHS in this process, behind one call that answers instead of raising."""

from typing import NamedTuple

import pulp

LIMIT_S = 2.0  # then the best found so far counts
GAP = 1e-9  # of the objective, within which an answer counts as an optimum


class Solved(NamedTuple):
    """The outcome of a solve: whether there is an answer, and why there is none or it may not be the best."""

    is_found: bool  # the problem's variables hold an answer
    trouble: str = ""  # why there is none, or why it may not be the best, for operators; "": an optimum


def solve(problem: pulp.LpProblem, limit_s: float = LIMIT_S) -> Solved:
    """Solve a problem in place. The best that HiGHS found by `limit_s` is an answer."""
    try:
        # one thread, as in `joint/search/linear.py`: HiGHS refuses another number in the same process
        problem.solve(pulp.HiGHS(msg=False, threads=1, timeLimit=limit_s, gapRel=GAP, gapAbs=GAP))
    except Exception as error:  # whatever a solver does, planning goes on: the caller plans without and says so
        return Solved(False, f"the solver failed ({type(error).__name__}: {error})")
    if problem.sol_status == pulp.LpSolutionOptimal:
        return Solved(True)
    if problem.sol_status == pulp.LpSolutionIntegerFeasible:
        return Solved(True, f"the solver was stopped after {limit_s:g} s")
    return Solved(False, f"the solver found no plan ({pulp.LpSolution[problem.sol_status].lower()})")
