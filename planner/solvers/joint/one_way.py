"""All requests served one way: what DiffServe and HADIS choose, by looking at every option. There before any program.

It is the plan that remains where the solver fails or runs out of time, so that a slow machine does not turn the whole
fleet over.
"""

from collections import defaultdict

import numpy as np

from planner.solvers.joint.one_level import throughput
from planner.solvers.joint.program.problem import Line, Mode, Problem, Running, Solution, solution_of
from planner.solvers.joint.search.relaxation import Timing, Timings

Way = tuple[int, int, int]  # level, next level, level of hard prompts; -1: none


def one_way(problem: Problem, timings: Timings) -> Solution | None:
    """The best plan of one option for all bands that sheds nothing; None where there is none."""
    ways: defaultdict[Way, list[int]] = defaultdict(list)
    for o, option in enumerate(problem.options):
        gate = problem.gates[option.gate]
        ways[gate.level, gate.next_level, option.straight_to].append(o)
    found = [
        best
        for way, options in ways.items()
        for timing in timings[way[:2]]
        if (best := _best(problem, options, _modes(problem, way, timing, timings)))
    ]
    return max(found, key=lambda best: best[0])[1] if found else None


def _best(problem: Problem, options: list[int], modes: dict[int, Mode] | None) -> tuple[float, Solution] | None:
    """The best option of a way in these modes that fits, with its value."""
    if modes is None:
        return None
    images = problem.demand_rps * np.einsum("c,ocv->ov", problem.shares, problem.load[options])
    counts = np.zeros(images.shape, dtype=int)
    for v, mode in modes.items():
        counts[:, v] = np.maximum(1, np.searchsorted(_rates(mode, problem.workers), images[:, v] * (1 - 1e-9)))
    moved = np.maximum(0, counts - problem.before) @ np.array(problem.switch_s)
    value = problem.merit[options] @ problem.shares - moved / (max(problem.workers, 1) * problem.hold_s)
    value = np.where((counts.sum(axis=1) <= problem.workers) & (counts <= problem.workers).all(axis=1), value, -np.inf)
    at = int(np.argmax(value))
    if not np.isfinite(value[at]):
        return None
    return float(value[at]), _solution(problem, options[at], counts[at], modes)


def _modes(problem: Problem, way: Way, timing: Timing, timings: Timings) -> dict[int, Mode] | None:
    """variant -> the mode it works in; None where the way takes too long."""
    level, next_level, straight_to = way
    chosen = {level: timing.first} | ({next_level: timing.second} if next_level >= 0 else {})
    if straight_to >= 0 and straight_to not in chosen:
        chosen[straight_to] = timings.get((straight_to, -1), (Timing(-1, -1),))[0].first
    if min(chosen.values()) < 0:
        return None
    return {at: problem.modes[at][mode] for at, mode in chosen.items()}


def _solution(problem: Problem, option: int, counts: np.ndarray, modes: dict[int, Mode]) -> Solution:
    given = np.zeros((len(problem.shares), len(problem.options)))
    given[:, option] = 1.0
    running = {v: Running(int(counts[v]), _line(mode, int(counts[v])), mode.sojourn_s) for v, mode in modes.items()}
    return solution_of(problem, given, np.zeros(len(problem.shares)), running)


def _rates(mode: Mode, workers: int) -> np.ndarray:
    """Return the capacity of 0 .. `workers`, rising."""
    counts, rates = np.arange(workers + 1), np.zeros(workers + 1)
    for line in mode.lines:
        held = slice(line.least, line.most + 1)
        rates[held] = line.slope * counts[held] - line.lost
    return np.asarray(np.maximum.accumulate(rates))


def _line(mode: Mode, count: int) -> Line:
    return max(mode.lines, key=lambda line: throughput(line, count))
