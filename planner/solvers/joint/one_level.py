"""All requests on one level with all workers: the plan that is always there, also where not all can be served."""

import numpy as np

from planner.solvers.joint.program.problem import Line, Problem, Running, Solution, score, solution_of


def on_one_level(problem: Problem) -> Solution:
    """Return the best plan on one level; requests beyond its capacity are shed. Without workers all are."""
    bands = len(problem.shares)
    none_served = solution_of(problem, np.zeros((bands, len(problem.options))), np.ones(bands), {})
    plain = [
        o
        for o, option in enumerate(problem.options)
        if problem.gates[option.gate].next_level < 0 and option.straight_to < 0
    ]
    return max([none_served, *(_only(problem, o) for o in plain)], key=lambda found: score(problem, found).value)


def throughput(line: Line, workers: int) -> float:
    """Return the images a second of this many workers on a line; 0 outside it."""
    return line.slope * workers - line.lost if line.least <= workers <= line.most else 0.0


def _only(problem: Problem, option: int) -> Solution:
    gate = problem.gates[problem.options[option].gate]
    v, left_s = gate.level, problem.slo_s - gate.extra_s + 1e-9
    fits = [(mode, line) for mode in problem.modes[v] if mode.first_s <= left_s for line in mode.lines]
    mode, line = max(fits, key=lambda fit: throughput(fit[1], problem.workers), default=(None, None))
    rate = throughput(line, problem.workers) if line else 0.0
    needed = problem.demand_rps * float(problem.shares @ problem.load[option, :, v])
    given = np.zeros((len(problem.shares), len(problem.options)))
    given[:, option] = min(1.0, rate / needed) if needed > 0 else float(rate > 0)
    running = {v: Running(problem.workers, line, mode.sojourn_s)} if mode and line else {}
    return solution_of(problem, given, 1 - given[:, option], running)
