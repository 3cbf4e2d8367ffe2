"""The step from which a request goes on: never more than the route, the guard and the similarity allow."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reuse.neighbour import Miss, Neighbour, Wanted, fault
from planner.reuse.steps import (
    Candidate,
    Decision,
    Floor,
    Floors,
    FullRun,
    InvalidFloors,
    Reuse,
    decide,
    expected_steps,
    saved_share,
    step_of,
)

NOW = 1000.0
WANTED = Wanted(tenant="a", model="m", width=48, height=48, dimension=128)
FLOORS = Floors((Floor(0.8, 0.2), Floor(0.9, 0.5)))


def neighbour(**changes: Any) -> Neighbour:
    values: dict[str, Any] = {
        "tenant": "a", "model": "m", "width": 48, "height": 48, "dimension": 128, "similarity": 0.95,
        "expires_ms": 2000,
    }  # fmt: skip
    return Neighbour(**(values | changes))


def decided(*candidates: Candidate, route: float = 0.5, steps: int = 20) -> Decision:
    return decide(route, FLOORS, candidates, WANTED, steps, NOW)


@given(
    st.floats(0, 0.99), st.floats(0, 0.99), st.floats(-1, 1), st.integers(1, 200),
)  # fmt: skip
def test_k_is_the_least_of_route_guard_and_floors_and_leaves_a_step(
    route: float, guard: float, similarity: float, steps: int
) -> None:
    found = decided(Candidate(neighbour(similarity=similarity), guard), route=route, steps=steps)
    limit = min(route, guard, FLOORS.share(similarity)) * steps
    if isinstance(found, Reuse):
        assert 0 < found.step <= limit + 1e-6
        assert found.step < steps
        assert found.step + 1 > limit or found.step == steps - 1
    else:
        assert limit < 1 or steps == 1


def test_a_share_of_the_steps_is_rounded_down_but_not_by_floating_point() -> None:
    assert [step_of(share, 10) for share in (0.0, 0.05, 0.1, 0.3, 0.7, 0.999)] == [0, 0, 1, 3, 7, 9]
    assert step_of(math.nan, 10) == 0
    assert step_of(0.9, 1) == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tenant": "b"}, Miss.TENANT),
        ({"model": "n"}, Miss.MODEL),
        ({"width": 64}, Miss.SIZE),
        ({"dimension": 64}, Miss.DIMENSION),
        ({"expires_ms": 1000}, Miss.STALE),
        ({"depth": 1}, Miss.DERIVED),
        ({"similarity": math.nan}, Miss.RUBBISH),
        ({"similarity": 7.0}, Miss.RUBBISH),
        ({"similarity": 0.79}, Miss.FLOOR),
    ],
)
def test_a_row_that_a_store_should_not_have_returned_is_a_miss_with_its_reason(
    changes: dict[str, Any], why: Miss
) -> None:
    assert decided(Candidate(neighbour(**changes), 0.5)) == FullRun(why)


def test_of_a_foreign_row_only_the_tenant_is_looked_at() -> None:
    foreign = neighbour(tenant="b", model="n", expires_ms=0, similarity=math.nan)
    assert fault(foreign, WANTED, NOW) is Miss.TENANT


def test_a_cosine_a_little_above_one_is_rounding() -> None:
    assert decided(Candidate(neighbour(similarity=1.0000002), 0.5)) == Reuse(10, 20, 1.0000002, 0)


def test_nothing_found_and_no_reuse_on_the_route_are_told_apart() -> None:
    assert decided() == FullRun(Miss.NONE)
    assert decided(Candidate(neighbour(), 0.5), route=0.0) == FullRun(Miss.ROUTE)


def test_what_the_guard_allows_nothing_for_is_a_miss_by_the_guard() -> None:
    assert decided(Candidate(neighbour(), 0.0)) == FullRun(Miss.GUARD)


def test_a_model_of_few_steps_has_no_step_to_save() -> None:
    assert decided(Candidate(neighbour(), 0.5), steps=1) == FullRun(Miss.STEPS)


def test_the_neighbour_that_saves_most_is_chosen_and_of_equal_ones_the_nearer() -> None:
    near_but_other = Candidate(neighbour(similarity=0.99), 0.0)
    right = Candidate(neighbour(similarity=0.93), 0.5)
    nearer = Candidate(neighbour(similarity=0.96), 0.5)
    assert decided(near_but_other, right, nearer) == Reuse(10, 20, 0.96, 2)


def test_the_reason_of_a_miss_is_the_nearest_ones() -> None:
    assert decided(Candidate(neighbour(), 0.0), Candidate(neighbour(tenant="b"), 0.5)) == FullRun(Miss.GUARD)


@pytest.mark.parametrize(
    "floors",
    [((0.9, 0.2), (0.8, 0.5)), ((0.8, 0.5), (0.9, 0.2)), ((0.8, 1.0),), ((1.1, 0.2),), ((math.nan, 0.2),)],
)
def test_floors_that_contradict_themselves_are_refused(floors: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(InvalidFloors):
        Floors(tuple(Floor(*each) for each in floors))


def test_without_floors_nothing_is_reused() -> None:
    assert Floors().share(1.0) == 0.0


def test_a_level_costs_its_hits_and_its_misses() -> None:
    assert expected_steps(0.25, 10, 20) == 17.5
    assert expected_steps(0.0, 10, 20) == 20


def test_saved_steps_are_a_share_over_all_requests() -> None:
    assert saved_share([Reuse(10, 20, 0.9, 0), FullRun(Miss.NONE)], 20) == 0.25
    assert saved_share([], 20) == 0.0
