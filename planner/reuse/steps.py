"""The step from which a request goes on, if it begins from a stored image: K = min(route, guard, similarity floors).

step of N    0 . . . . . K . . . . . N
from noise   noise ----------------> image
from a hit               stored ---> image      (N - K) / N of the time
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from planner.catalog.entries import expected_steps as expected_steps
from planner.reuse.eligibility import Refusal
from planner.reuse.neighbour import Miss, Neighbour, Wanted, fault
from planner.reuse.terms import Floor as Floor
from planner.reuse.terms import Floors as Floors
from planner.reuse.terms import InvalidFloors as InvalidFloors

_ROUNDING = 1e-9  # .3 of 10 steps are 3, whatever the floating point says


class Reuse(NamedTuple):
    """The decision to begin from a stored image."""

    step: int  # K of `steps`: skipped
    steps: int  # N
    similarity: float
    candidate: int  # index among those that were found


class FullRun(NamedTuple):
    """The decision to run all steps, and why."""

    why: Miss
    refusal: Refusal | None = None  # of an ineligible request


Decision = Reuse | FullRun


class Candidate(NamedTuple):
    """A neighbour with the share of the steps that the guard allows for the facts of its prompt."""

    neighbour: Neighbour
    guard_share: float  # [0, 1]; 1: there is no guard


def step_of(share: float, steps: int) -> int:
    """Return K for a share of N steps: rounded down, and one step at least is left to take."""
    if not share > 0.0:
        return 0
    return min(math.floor(share * steps + _ROUNDING), steps - 1)


def decide(
    route_share: float,
    floors: Floors,
    candidates: Iterable[Candidate],
    wanted: Wanted,
    steps: int,
    now_ms: float,
) -> Decision:
    """Decide by what a search found, the nearest first: the candidate that saves most, the nearer of two alike.

    If none may be used, the reason is the nearest one's. `route_share`: of the level that the route chose.
    """
    if not route_share > 0.0:
        return FullRun(Miss.ROUTE)
    best: Reuse | None = None
    first: Miss | None = None
    for at, (neighbour, guard_share) in enumerate(candidates):
        found = _of_one(route_share, floors, neighbour, guard_share, wanted, steps, now_ms)
        if isinstance(found, Miss):
            first = first or found
        elif best is None or (found, neighbour.similarity) > (best.step, best.similarity):
            best = Reuse(found, steps, neighbour.similarity, at)
    return best or FullRun(first or Miss.NONE)


def _of_one(
    route_share: float,
    floors: Floors,
    neighbour: Neighbour,
    guard_share: float,
    wanted: Wanted,
    steps: int,
    now_ms: float,
) -> int | Miss:
    if wrong := fault(neighbour, wanted, now_ms):
        return wrong
    if not (by_floor := floors.share(neighbour.similarity)) > 0.0:
        return Miss.FLOOR
    if not guard_share > 0.0:
        return Miss.GUARD
    return step_of(min(route_share, guard_share, by_floor), steps) or Miss.STEPS


def saved_share(decisions: Sequence[Decision], steps: int) -> float:
    """Return the share of all steps that were saved, over all requests: hits, misses and those not looked up."""
    if not decisions:
        return 0.0
    return sum(each.step for each in decisions if isinstance(each, Reuse)) / (steps * len(decisions))
