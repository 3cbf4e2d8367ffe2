"""From a problem to what to do: searched from a relaxation's guess, never without an answer."""

from dataclasses import replace

import numpy as np

from planner.solvers.joint.one_level import on_one_level
from planner.solvers.joint.one_way import one_way
from planner.solvers.joint.program.problem import Problem, Solution, score
from planner.solvers.joint.search.gates import Found, Search
from planner.solvers.joint.search.linear import Linear
from planner.solvers.joint.search.relaxation import Guess, relaxed, starts, straight_only, timings_of
from planner.solvers.joint.search.workers import planned, whole

NOTHING = "the solver found nothing better"


def solve(problem: Problem) -> Solution:
    """The best plan found, at least as good as serving all requests in one way.

    The search goes always as far, so that the same problem has the same plan. Never raises: where the solver fails or
    finds nothing, the next best answer remains.
    """
    simple = on_one_level(problem)
    if problem.workers < 1 or not problem.options:
        return simple
    counts = np.full(len(problem.levels), max(problem.workers / 4, 1.0))
    timings = timings_of(problem, counts)
    simple = _best(problem, simple, one_way(problem, timings))
    found = searched(problem, relaxed(problem, timings, counts))
    return _best(problem, simple, found) if found else replace(simple, trouble=NOTHING)


def searched(problem: Problem, guess: Guess) -> Solution | None:
    """The best plan that the search finds from the relaxation's guess; None where it finds none."""
    search = Search(problem, Linear(problem))
    ends = search.best([*starts(guess.relaxation, guess.price), *straight_only(problem)], guess.counts)
    best: Found | None = None
    for end in ends:
        if not best or end.value > best.value:  # whole workers are worth no more than others
            best = max(filter(None, (best, whole(search, end))), key=lambda found: found.value, default=None)
    return planned(search, best) if best else None


def _best(problem: Problem, old: Solution, new: Solution | None) -> Solution:
    """The better one; of equal ones the new one."""
    return new if new and score(problem, new).value >= score(problem, old).value else old
