"""How often a hit is expected, and what a plan says of reuse."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.measured import Start
from planner.catalog.reuse import Neighbours
from planner.observation.observation import Observation
from planner.observation.reuse import ObservedHits
from planner.policies import argus, joint, nirvana
from planner.reuse.planning import (
    any_neighbour,
    blended,
    check_of,
    expected_hits,
    guarded_plan,
    level_of,
    reuse_plan,
    step_shares,
    with_lookups,
)
from planner.reuse.terms import terms_of
from schemas.messages import ReuseFloor, ReuseGuard, ReusePlan, Route
from tests.builders import a_catalog, a_reuse_plan, an_observation, lookups
from tests.planner.solvers.levels.builders import a_reuse_ladder, a_reuse_profile

ROWS = (
    Neighbours(0.7, 0.2),
    Neighbours(0.9, 0.4, {"equal": 0.5, "style": 0.25, "count": 0.25}),
)  # 40 % have no neighbour


def terms(**changes: object) -> object:
    return terms_of(a_reuse_plan(check=None, **changes))


def test_requests_begin_where_floor_guard_and_route_allow_and_all_of_them_are_counted() -> None:
    shares = step_shares(ROWS, terms(), 0.4, 20)
    assert shares == pytest.approx({4: 0.2 + 0.4 * 0.25, 8: 0.4 * 0.5, 0: 0.4 * 0.25 + 0.4})
    assert step_shares(ROWS, terms(guard=None), 0.4, 20) == pytest.approx({4: 0.2, 8: 0.4, 0: 0.4})


def test_a_hit_that_saves_half_counts_half() -> None:
    assert expected_hits(a_reuse_profile(neighbours=ROWS), terms(), "heavy~k8", 8, 20) == pytest.approx(
        (0.3 * 4 + 0.2 * 8) / 8
    )


def test_a_rate_that_was_measured_by_level_stands_in_where_neighbours_are_not_known() -> None:
    profile = a_reuse_profile(neighbours=(), hits={"heavy~k8": 0.3})
    assert expected_hits(profile, terms(), "heavy~k8", 8, 20) == 0.3
    assert expected_hits(profile, terms(), "heavy~k4", 4, 20) == 0.0


@given(
    st.lists(st.tuples(st.integers(-10, 10), st.floats(0, 0.05)), max_size=9, unique_by=lambda row: row[0]).map(sorted),
    st.lists(st.integers(1, 19), min_size=2, max_size=2).map(sorted),
)
def test_a_route_that_allows_more_never_saves_less(rows: list[tuple[int, float]], routes: list[int]) -> None:
    neighbours = tuple(Neighbours(tenths / 10, share) for tenths, share in rows)
    less, more = (
        sum(step * share for step, share in step_shares(neighbours, terms(), k / 20, 20).items()) for k in routes
    )
    assert less <= more + 1e-9


def test_prompts_are_compared_by_the_encoder_that_the_profile_was_measured_with() -> None:
    profile = dataclasses.replace(a_reuse_profile(neighbours=ROWS), key="words")
    plan = reuse_plan(a_reuse_ladder(), profile, any_neighbour(0.5), {})
    assert plan.key == "words"
    assert reuse_plan(a_reuse_ladder(), profile, any_neighbour(0.5), {}, key="other").key == "other"


def test_argus_begins_from_the_nearest_neighbour_whatever_its_similarity() -> None:
    plan = terms_of(ReusePlan(floors=any_neighbour(0.5)))
    assert plan.floors.share(-1.0) == plan.floors.share(0.99) == 0.5
    assert plan.guard is None


def test_a_plan_names_the_hits_of_every_reuse_level_and_what_was_seen_counts_beside_the_profile() -> None:
    floors = (ReuseFloor(similarity=0.5, share=0.8),)
    seen = {"heavy~k20": ObservedHits(50, 0.0)}
    plan = reuse_plan(a_reuse_ladder(), a_reuse_profile(), floors, seen, guard=ReuseGuard(equal=0.8))
    assert plan.hits == pytest.approx({"heavy~k10": 1.0, "heavy~k20": 0.5})
    assert blended(0.4, ObservedHits(0, 0.9)) == blended(0.4, None) == 0.4
    assert blended(0.4, ObservedHits(1000, 0.8123)) == blended(0.4, ObservedHits(1000, 0.8124))


def test_the_check_is_the_catalog_s_own_discriminator_where_it_has_one() -> None:
    check = check_of(a_catalog())
    assert check is not None
    assert (check.discriminator, check.threshold) == ("look", 0.3)
    assert check_of(a_catalog(discriminators={}, cascades=())) is None


LADDER = a_reuse_ladder(reuse={"heavy": tuple(Start(k, 1 - k / 25, 0.97) for k in (5, 10, 15, 20))})


@pytest.mark.parametrize(
    ("shares", "level"),
    [((0.2,), "heavy~k5"), ((0.2, 0.6), "heavy~k15"), ((0.5,), "heavy~k15"), ((0.8,), "heavy~k20"), ((0.9,), None)],
)
def test_floors_hold_on_the_level_of_the_smallest_k_that_lets_them_save_all_that_they_may(
    shares: tuple[float, ...], level: str | None
) -> None:
    floors = [ReuseFloor(similarity=0.8 + share / 10, share=share) for share in shares]
    found = level_of(LADDER, floors)
    assert (found and found.name) == level


def test_a_level_of_a_larger_k_saves_nothing_more() -> None:
    bounds = terms(floors=(ReuseFloor(similarity=0.65, share=0.2), ReuseFloor(similarity=0.85, share=0.6)), guard=None)
    assert step_shares(ROWS, bounds, 15 / 25, 25) == step_shares(ROWS, bounds, 20 / 25, 25)
    assert step_shares(ROWS, bounds, 10 / 25, 25) != step_shares(ROWS, bounds, 15 / 25, 25), "nobody tested that"


def test_no_plan_with_measured_floors_sends_requests_to_a_level_that_they_were_not_tested_on() -> None:
    floors = (ReuseFloor(similarity=0.9, share=0.4), ReuseFloor(similarity=0.95, share=0.6))
    losses = dict.fromkeys(("heavy~k5", "heavy~k10", "heavy~k15", "heavy~k20"), 0.0)
    profile = a_reuse_profile(floors=floors, guard=ReuseGuard(equal=0.6), losses=losses)
    catalog = a_reuse_ladder(reuse=dict(LADDER.reuse), reuse_profile=profile, indifference=0.005)
    plans = {"argus": (argus.plan, {"guarded": 1}), "joint": (joint.plan, {}), "nirvana": (nirvana.plan, {"guard": 1})}
    for name, (plan, parameters) in plans.items():
        used = set[str]()
        for demand_rps in (1.0, 20.0, 30.0, 45.0, 60.0, 200.0):
            seen: Observation = an_observation(4, demand_rps=demand_rps, slo_ms=5000.0, reuse=lookups())
            routes = plan(seen, catalog, {}, parameters).routes
            used |= {level for route in routes for level, share in route.levels.items() if share > 0 and "~" in level}
        assert used == {"heavy~k15"}, name


def test_where_the_catalog_has_no_such_level_nothing_is_reused() -> None:
    profile = a_reuse_profile(floors=(ReuseFloor(similarity=0.9, share=0.9),), guard=ReuseGuard(equal=0.9))
    assert guarded_plan(a_reuse_ladder(reuse_profile=profile), profile, {}) is None


def test_only_requests_for_the_level_s_variant_are_looked_up_and_of_them_the_share_asked_for() -> None:
    routes = (Route(levels={"light": 0.5, "heavy": 0.5}), Route(levels={"heavy~k20": 0.8, "heavy": 0.2}))
    tried = with_lookups(routes, "heavy~k20", 0.1)
    assert [route.levels for route in tried] == [
        pytest.approx({"light": 0.5, "heavy": 0.45, "heavy~k20": 0.05}),
        pytest.approx({"heavy": 0.9, "heavy~k20": 0.1}),
    ]  # fmt: skip
    assert with_lookups(tried, "heavy~k20", 0.1)[1].levels == pytest.approx(tried[1].levels), "again it changes nothing"
    assert [route.levels for route in with_lookups(routes, "heavy~k20", 0.0)] == [
        pytest.approx({"light": 0.5, "heavy": 0.5}), pytest.approx({"heavy": 1.0}),
    ]  # fmt: skip
