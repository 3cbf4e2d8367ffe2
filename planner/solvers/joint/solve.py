"""From a problem to what to do: solved whole where it is small, searched where it is not, never without an answer."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from planner.solvers import milp
from planner.solvers.joint.linear import Linear
from planner.solvers.joint.one_level import on_one_level
from planner.solvers.joint.one_way import one_way
from planner.solvers.joint.problem import Mode, Problem, Running, Solution, score, solution_of
from planner.solvers.joint.program import Program, program
from planner.solvers.joint.relaxation import Guess, relaxed, timings_of
from planner.solvers.joint.search import Found, Search
from planner.solvers.joint.starts import starts, straight_only
from planner.solvers.joint.whole import planned, settled, whole

EXACT = ("cuts off", "preprocess off", "allow 1e-9")  # with them CBC proved a wrong optimum one time in forty
SMALL = 60  # yes-or-no unknowns up to which a problem is solved whole
NOTHING = "the solver found nothing better"


def solve(problem: Problem, time_limit_s: float) -> Solution:
    """The best plan found, at least as good as serving all requests in one way.

    A small problem is solved whole, by programs within the limit each. A large one is searched: always as far, so that
    the same problem has the same plan. Never raises: where the solver fails or finds nothing in time, the next best
    answer remains.
    """
    simple = on_one_level(problem)
    if problem.workers < 1 or not problem.options:
        return simple
    counts = np.full(len(problem.levels), max(problem.workers / 4, 1.0))
    timings = timings_of(problem, counts)
    simple = _better(problem, simple, one_way(problem, timings))
    every = range(len(problem.options))
    if len(problem.gates) + sum(len(mode.lines) for modes in problem.modes for mode in modes) <= SMALL:
        return _better(problem, simple, optimum(problem, every, problem.modes, time_limit_s, EXACT))
    return _better(problem, simple, searched(problem, relaxed(problem, timings, counts)))


def searched(problem: Problem, guess: Guess) -> Solution | None:
    """The best plan that the search finds from the relaxation's guess; None where it finds none."""
    search = Search(problem, Linear(problem))
    ends = search.best([*starts(guess.offers, guess.price), *straight_only(problem)], guess.counts)
    best: Found | None = None
    for end in ends:
        if not best or end.value > best.value:  # whole workers are worth no more than others
            best = max(filter(None, (best, whole(search, end))), key=lambda found: found.value, default=None)
    return planned(search, settled(search, best)) if best else None


def optimum(
    problem: Problem,
    options: Iterable[int],
    modes: Sequence[Sequence[Mode]],
    time_limit_s: float,
    how: Sequence[str] = EXACT,
) -> Solution | None:
    """The best plan of these options and modes per variant; None where the solver found none. `how`: CBC's options."""
    made = program(problem, options, modes)
    solved = milp.solve(made.model, time_limit_s, how)
    return _read(problem, made, solved.trouble) if solved.is_found else None


def _better(problem: Problem, old: Solution, new: Solution | None) -> Solution:
    """The better one, with what is known of the search for the new one."""
    if new is None:
        return replace(old, is_proven=False, trouble=NOTHING)
    best = new if score(problem, new).value >= score(problem, old).value else old
    return replace(best, is_proven=new.is_proven, trouble=new.trouble)


def _read(problem: Problem, made: Program, trouble: str) -> Solution:
    given = np.zeros((len(problem.shares), len(problem.options)))
    for (c, o), unknown in made.given.items():
        given[c, o] = _value(unknown)
    running = {
        v: Running(round(_value(piece.staff)), piece.line, piece.mode.sojourn_s)
        for v, pieces in enumerate(made.pieces)
        for piece in pieces
        if _value(piece.runs) > 0.5
    }
    shed = np.array([_value(unknown) for unknown in made.shed])
    return solution_of(problem, given, shed, running, is_proven=not trouble, trouble=trouble)


def _value(unknown: object) -> float:
    return float(getattr(unknown, "varValue", None) or 0.0)
