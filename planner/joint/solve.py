"""From a problem to what to do: programs by CBC within a time limit, and never without an answer."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from planner import solver
from planner.joint.one_level import on_one_level
from planner.joint.one_way import one_way
from planner.joint.problem import Mode, Problem, Solution, score
from planner.joint.program import Program, program
from planner.joint.reduction import around, modes_around, offered
from planner.joint.relaxation import relaxed, timings_of

CBC = ("cuts off", "feas off", "allow 1e-3")  # what a proof may leave open, in spans; the rest costs more than it saves
EXACT = ("allow 1e-9",)
SMALL = 60  # yes-or-no unknowns up to which a problem is solved whole
SPENT = 1e-6  # below it a share is rounding


def solve(problem: Problem, time_limit_s: float) -> Solution:
    """The best plan found within the limit, at least as good as serving all requests in one way.

    A small problem is solved whole. Of a large one two parts are: what the relaxation points at, then what lies around
    the first answer. Never raises: where the solver fails or finds nothing in time, the next best answer remains.
    """
    simple = on_one_level(problem)
    if problem.workers < 1 or not problem.options:
        return simple
    timings = timings_of(problem, np.full(len(problem.variants), max(problem.workers / 4, 1.0)))
    simple = _better(problem, simple, one_way(problem, timings))
    every = range(len(problem.options))
    if len(problem.gates) + sum(len(mode.lines) for modes in problem.modes for mode in modes) <= SMALL:
        return _better(problem, simple, optimum(problem, every, problem.modes, time_limit_s, EXACT))
    guess = relaxed(problem)
    first = optimum(problem, offered(problem, guess), modes_around(problem, guess.counts, guess.timings), time_limit_s)
    found = _better(problem, simple, first)
    counts = tuple(float(max(count, 1)) for count in found.counts)
    second = optimum(problem, around(problem, found), modes_around(problem, counts, guess.timings), time_limit_s)
    return _better(problem, found, second)


def optimum(
    problem: Problem,
    options: Iterable[int],
    modes: Sequence[Sequence[Mode]],
    time_limit_s: float,
    how: Sequence[str] = CBC,
) -> Solution | None:
    """The best plan of these options and modes per variant; None where the solver found none. `how`: CBC's options."""
    made = program(problem, options, modes)
    solved = solver.solve(made.model, time_limit_s, how)
    return _read(problem, made, not solved.trouble) if solved.is_found else None


def _better(problem: Problem, old: Solution, new: Solution | None) -> Solution:
    """The better one; proven only if the search for the new one ended."""
    best = new if new is not None and score(problem, new).value >= score(problem, old).value else old
    return replace(best, is_proven=new is not None and new.is_proven)


def _read(problem: Problem, made: Program, is_proven: bool) -> Solution:
    given = np.zeros((len(problem.shares), len(problem.options)))
    for (c, o), unknown in made.given.items():
        given[c, o] = _value(unknown)
    shed = np.array([_value(unknown) for unknown in made.shed])
    total = given.sum(axis=1) + shed
    given, shed = given / total[:, None], shed / total
    running = [next((p for p in pieces if _value(p.runs) > 0.5), None) for pieces in made.pieces]
    used = {problem.options[o].gate for o in np.flatnonzero(given.any(axis=0))}
    return Solution(
        given=given,
        shed=shed,
        counts=tuple(round(_value(piece.staff)) if piece else 0 for piece in running),
        lines=tuple(piece.line if piece else None for piece in running),
        sojourns_s=tuple(piece.mode.sojourn_s if piece else 0.0 for piece in running),
        gates=tuple(sorted(used)),
        is_proven=is_proven,
    )


def _value(unknown: object) -> float:
    value = float(getattr(unknown, "varValue", None) or 0.0)
    return value if value > SPENT else 0.0
