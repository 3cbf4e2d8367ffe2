"""Floors and limits: only what is shown to lose little is allowed, and nothing where nothing is shown."""

import numpy as np
import pytest

from agents.lab.profiling.reuse.floors import (
    compose,
    floors_alone,
    guard_limits,
    guard_with,
    lowest_floor,
    pairs_of_one_kind,
    steps_skipped,
)
from planner.reuse.terms import Difference, Floor, Floors, GuardShares
from tests.agents.lab.profiling.reuse.seen import EQUAL, UNSURE, an_observed, differing

MANY = 2000
SPREAD = np.linspace(0.5, 1.0, MANY)
NO_LIMITS = GuardShares(equal=0.0)


def test_a_floor_lies_where_reuse_begins_to_lose() -> None:
    seen = an_observed(SPREAD, lambda _, similarity: similarity >= 0.9)
    floor = lowest_floor(seen, 2, tolerance=0.005)
    assert floor is not None
    assert 0.88 < floor.similarity < 0.93
    assert floor.share == 0.5
    assert floor.change.low >= -0.005
    assert floor.hit_rate == pytest.approx((1 - floor.similarity) / 0.5, abs=0.01)
    assert floor.saved_share == pytest.approx(floor.hit_rate / 2, abs=1e-4)


def test_there_is_no_floor_where_even_the_most_similar_lose() -> None:
    exact = np.where(np.arange(MANY) % 2, 1.0, 0.5)
    assert lowest_floor(an_observed(exact, lambda *_: False), 1, tolerance=0.005) is None


def test_a_loss_counts_by_how_many_hits_there_are() -> None:
    """A tenth of the hits is lost; of 40 among 2,000 requests that is little, of all of them it is not."""
    rare = [EQUAL if at % 50 == 0 else differing(Difference.COUNT) for at in range(MANY)]
    lost = np.arange(MANY + 1) % 500 == 1
    few = an_observed([0.95] * MANY, lambda *_: ~lost, rare)
    many = an_observed([0.95] * MANY, lambda *_: np.arange(MANY + 1) % 10 > 0)
    assert lowest_floor(few, 1, tolerance=0.01) is not None
    assert lowest_floor(many, 1, tolerance=0.01) is None


def test_no_lower_floor_is_tried_after_one_has_failed() -> None:
    """Requests between .8 and .9 lose; that those below gain as many again does not excuse it."""
    noise = np.concatenate([[True], SPREAD >= 0.7])
    seen = an_observed(SPREAD, lambda _, similarity: (similarity < 0.8) | (similarity >= 0.9), noise=noise)
    floor = lowest_floor(seen, 1, tolerance=0.005)
    assert floor is not None
    assert floor.similarity > 0.88


def test_few_requests_prove_nothing() -> None:
    assert floors_alone(an_observed(np.linspace(0.5, 1, 100), lambda *_: True), tolerance=0.005) == ()
    assert len(floors_alone(an_observed(SPREAD, lambda *_: True), tolerance=0.005)) == 3


def test_requests_whose_facts_differ_are_no_hits() -> None:
    compared = [EQUAL if at % 10 == 0 else differing(Difference.COLOUR) for at in range(MANY)]
    is_hit = np.array([False, *(each is EQUAL for each in compared)])
    floor = lowest_floor(an_observed([0.99] * MANY, lambda *_: is_hit, compared), 1, tolerance=0.005)
    assert floor is not None
    assert floor.hit_rate == pytest.approx(0.1, abs=0.001)


def test_a_floor_needs_hits_to_rest_on() -> None:
    compared = [EQUAL if at < 29 else differing(Difference.COLOUR) for at in range(MANY)]
    assert lowest_floor(an_observed([0.99] * MANY, lambda *_: True, compared), 1, tolerance=0.005) is None


def test_floors_together_save_more_than_the_best_alone_and_lose_no_more_than_is_tolerated() -> None:
    seen = an_observed(SPREAD, lambda step, similarity: similarity >= {1: 0.6, 2: 0.8, 3: 0.95}[step])
    alone = floors_alone(seen, tolerance=0.005)
    floors = compose(seen, alone, NO_LIMITS, tolerance=0.005)
    guard = guard_with([floors], NO_LIMITS)
    saved = steps_skipped(seen, floors, guard).mean() / seen.steps
    assert len(floors.floors) > 1
    assert saved > max(floor.saved_share for floor in alone)
    assert guard.equal == guard.style == floors.floors[-1].share


def test_a_route_has_floors_of_its_own_where_a_later_start_is_the_safer_one() -> None:
    """From step 3 the stored image stays as it is; from 1 and 2 everything is lost but for the very similar."""
    seen = an_observed(SPREAD, lambda step, similarity: (similarity >= 0.95) | (step == 3))
    alone = floors_alone(seen, tolerance=0.005)
    whole, half = (compose(seen, alone, NO_LIMITS, 0.005, route) for route in (0.75, 0.5))
    assert whole.share(0.6) == 0.75
    assert half.share(0.6) == 0.0
    assert half.share(1.0) == 0.5


def test_a_kind_of_difference_is_measured_on_the_pairs_that_differ_in_it_alone() -> None:
    compared = [
        differing(Difference.COLOUR), differing(Difference.COLOUR, Difference.COUNT), differing(Difference.COUNT),
        UNSURE, EQUAL,
    ]  # fmt: skip
    seen = an_observed([0.9] * 5, lambda *_: True, compared)
    assert {kind: rows.tolist() for kind, rows in pairs_of_one_kind(seen).items()} == {"colour": [1], "count": [3]}


def test_a_kind_is_limited_by_its_own_pairs_however_rare_they_are() -> None:
    """Colour survives one step, a count none; of sizes there are too few to say."""
    kinds = [Difference.COLOUR] * 900 + [Difference.COUNT] * 900 + [Difference.SIZE] * 20
    is_colour = np.array([False, *(kind is Difference.COLOUR for kind in kinds)])
    seen = an_observed([0.9] * len(kinds), lambda step, _: is_colour & (step == 1), [differing(kind) for kind in kinds])
    limits = guard_limits(seen, tolerance=0.005)
    assert limits.differs == {Difference.COLOUR: 0.25}
    assert limits.unsure == 0.0


def test_who_is_unsure_may_skip_what_unrelated_neighbours_may() -> None:
    seen = an_observed([0.9] * MANY, lambda step, _: np.full(MANY + 1, step <= 2))
    assert guard_limits(seen, tolerance=0.005).unsure == 0.5
    assert guard_limits(an_observed([0.9] * 50, lambda *_: np.full(51, True)), tolerance=0.005).unsure == 0.0


def test_steps_are_skipped_as_a_worker_decides_it() -> None:
    floors = Floors((Floor(0.8, 0.25), Floor(0.9, 0.75)))
    guard = GuardShares(equal=0.75, differs={Difference.COLOUR: 0.25})
    compared = [EQUAL, EQUAL, EQUAL, differing(Difference.COLOUR), differing(Difference.COUNT)]
    seen = an_observed([0.7, 0.85, 0.95, 0.95, 0.95], lambda *_: True, compared)
    assert steps_skipped(seen, floors, guard).tolist() == [0, 0, 1, 3, 1, 0]
    assert steps_skipped(seen, floors, guard, route=0.5).tolist() == [0, 0, 1, 2, 1, 0]


def test_a_request_that_was_not_begun_at_its_step_is_an_error_and_no_loss() -> None:
    seen = an_observed([0.9, 0.9], lambda _k, near: np.where(near > 0, 1.0, np.nan))
    seen.nearest[1].quality[2] = np.nan
    with pytest.raises(ValueError, match=r"not begun at the step that they skip: requests \[2\]"):
        seen.begun([0, 1, 1])
