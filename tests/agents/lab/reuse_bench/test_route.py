"""The route that is measured: where the profile's floors save most."""

from dataclasses import replace

from agents.lab.reuse_bench.route import costliest_route, guarded_route
from planner.catalog.measured import Start
from planner.catalog.model import Catalog
from planner.catalog.reuse import Neighbours, ReuseProfile
from schemas.messages import ReuseFloor, ReuseGuard
from tests.builders import a_catalog

PROFILE = ReuseProfile(
    floors=(ReuseFloor(similarity=0.8, share=0.4),), guard=ReuseGuard(equal=0.4), neighbours=(Neighbours(0.8, 0.5),)
)


def with_starts(profile: ReuseProfile | None, *steps: int) -> Catalog:
    starts = tuple(Start(k=k, quality=0.9, cost_share=1 - k / 25) for k in steps)
    return replace(a_catalog(), reuse={"heavy": starts} if starts else {}, reuse_profile=profile)


def test_the_level_is_that_on_which_most_steps_are_expected_to_be_saved() -> None:
    route = guarded_route(with_starts(PROFILE, 5, 10, 20))
    assert route is not None
    assert (route.level, route.share) == ("heavy~k10", 0.4)
    assert route.plan.guard == PROFILE.guard


def test_without_floors_nothing_is_reused() -> None:
    assert guarded_route(with_starts(None, 5)) is None
    assert guarded_route(with_starts(ReuseProfile(guard=ReuseGuard(equal=0.4)), 5)) is None


def test_costs_are_measured_on_the_deepest_level_without_floors() -> None:
    route = costliest_route(with_starts(None, 5, 20))
    assert route is not None
    assert route.level == "heavy~k20"
    assert [floor.similarity for floor in route.plan.floors] == [-1.0]


def test_a_catalog_without_levels_that_begin_later_has_no_route() -> None:
    assert costliest_route(with_starts(PROFILE)) is None
    assert guarded_route(with_starts(PROFILE)) is None
