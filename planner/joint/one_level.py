"""All requests on one level with all workers: the plan that is always there, also where not all can be served."""

import numpy as np

from planner.joint.problem import Line, Problem, Solution, score


def on_one_level(problem: Problem) -> Solution:
    """The best of such plans; what it cannot take is shed. Without workers nothing is served."""
    nobody = Solution(
        given=np.zeros((len(problem.shares), len(problem.options))),
        shed=np.ones(len(problem.shares)),
        counts=(0,) * len(problem.variants),
        lines=(None,) * len(problem.variants),
        sojourns_s=(0.0,) * len(problem.variants),
        gates=(),
        is_proven=True,
    )
    plain = [
        o
        for o, option in enumerate(problem.options)
        if problem.gates[option.gate].next_level < 0 and option.straight_to < 0
    ]
    return max([nobody, *(_only(problem, o) for o in plain)], key=lambda found: score(problem, found).value)


def carried(line: Line, workers: int) -> float:
    """Pictures a second of this many workers on a line; 0 outside it."""
    return line.slope * workers - line.lost if line.least <= workers <= line.most else 0.0


def _only(problem: Problem, option: int) -> Solution:
    gate = problem.gates[problem.options[option].gate]
    v, left_s = problem.variant_of[gate.level], problem.slo_s - gate.extra_s + 1e-9
    fits = [(mode, line) for mode in problem.modes[v] if mode.first_s <= left_s for line in mode.lines]
    mode, line = max(fits, key=lambda fit: carried(fit[1], problem.workers), default=(None, None))
    rate = carried(line, problem.workers) if line else 0.0
    needed = problem.demand_rps * float(problem.shares @ problem.load[option, :, v])
    given = np.zeros((len(problem.shares), len(problem.options)))
    given[:, option] = min(1.0, rate / needed) if needed > 0 else float(rate > 0)
    at = range(len(problem.variants))
    return Solution(
        given=given,
        shed=1 - given[:, option],
        counts=tuple(problem.workers if i == v and line else 0 for i in at),
        lines=tuple(line if i == v else None for i in at),
        sojourns_s=tuple(mode.sojourn_s if i == v and mode else 0.0 for i in at),
        gates=(problem.options[option].gate,),
        is_proven=False,
    )
