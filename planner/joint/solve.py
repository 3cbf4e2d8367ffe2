"""From a problem to what to do: programs by CBC within a time limit, and never without an answer."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from planner import solver
from planner.joint.one_level import on_one_level
from planner.joint.one_way import one_way
from planner.joint.problem import Mode, Problem, Score, Solution, score
from planner.joint.program import Program, Thrift, program
from planner.joint.reduction import around, modes_around, offered
from planner.joint.relaxation import relaxed, timings_of

CBC = ("cuts off", "feas off", "allow 1e-3")  # what a proof may leave open, in spans; the rest costs more than it saves
EXACT = ("cuts off", "preprocess off", "allow 1e-9")  # with them CBC proved a wrong optimum one time in forty
SMALL = 60  # yes-or-no unknowns up to which a problem is solved whole
SPENT = 1e-6  # below it a share is rounding


def solve(problem: Problem, time_limit_s: float) -> Solution:
    """The best plan found within the limit, at least as good as serving all requests in one way.

    A small problem is solved whole. Of a large one two parts are: what the relaxation points at, then what lies around
    the first answer. Where a little quality makes no difference, the last program is for the least work. Never raises:
    where the solver fails or finds nothing in time, the next best answer remains.
    """
    simple = on_one_level(problem)
    if problem.workers < 1 or not problem.options:
        return simple
    timings = timings_of(problem, np.full(len(problem.variants), max(problem.workers / 4, 1.0)))
    simple = _better(problem, simple, one_way(problem, timings))
    every = range(len(problem.options))
    if len(problem.gates) + sum(len(mode.lines) for modes in problem.modes for mode in modes) <= SMALL:
        found = _better(problem, simple, optimum(problem, every, problem.modes, time_limit_s, EXACT))
        if problem.slack <= 0:
            return found
        return _thriftier(problem, found, relaxed(problem).price, every, problem.modes, time_limit_s, EXACT)
    guess = relaxed(problem)
    near = offered(problem, guess)
    first = optimum(problem, near, modes_around(problem, guess.counts, guess.timings), time_limit_s)
    found = _better(problem, simple, first)
    counts = tuple(float(max(count, 1)) for count in found.counts)
    modes = modes_around(problem, counts, guess.timings)
    if problem.slack > 0:
        return _thriftier(problem, found, guess.price, {*near, *around(problem, found)}, modes, time_limit_s, CBC)
    return _better(problem, found, optimum(problem, around(problem, found), modes, time_limit_s))


def _thriftier(
    problem: Problem,
    found: Solution,
    price: float,
    options: Iterable[int],
    modes: Sequence[Sequence[Mode]],
    time_limit_s: float,
    how: Sequence[str],
) -> Solution:
    """A plan with less work and a quality that differs by nothing that makes a difference, or a better one."""
    before = score(problem, found)
    thrift = Thrift(before.quality - problem.slack, price)
    other = optimum(problem, options, modes, time_limit_s, how, thrift)
    if other is None:
        return replace(found, is_proven=False)
    after = score(problem, other)
    is_as_good = after.shed <= before.shed + SPENT and after.quality >= thrift.floor - SPENT
    return other if is_as_good and _worth(after, price) >= _worth(before, price) else found


def _worth(found: Score, price: float) -> float:
    return found.quality - price * found.busy - found.away


def optimum(
    problem: Problem,
    options: Iterable[int],
    modes: Sequence[Sequence[Mode]],
    time_limit_s: float,
    how: Sequence[str] = CBC,
    thrift: Thrift | None = None,
) -> Solution | None:
    """The best plan of these options and modes per variant; None where the solver found none. `how`: CBC's options.

    `thrift`: as `program` has it.
    """
    made = program(problem, options, modes, thrift)
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
