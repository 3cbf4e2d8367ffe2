"""`nirvana`: the large model everywhere, K by similarity, deaf to the load."""

import pytest

from planner.catalog.model import Catalog
from planner.catalog.reuse import Neighbours
from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.validity import check
from planner.observation.reuse import ObservedHits
from planner.policies.nirvana import MODM_FLOORS, NIRVANA_FLOORS, plan
from schemas.messages import ReuseFloor, ReuseGuard
from tests.builders import an_observation, lookups
from tests.planner.solvers.levels.builders import a_ladder, a_reuse_ladder, a_reuse_profile

HALF_REPEAT = a_reuse_profile(neighbours=(Neighbours(0.7, 0.3), Neighbours(0.96, 0.5)))


def drafted(catalog: Catalog, **parameters: float) -> PlanProposal:
    draft = plan(an_observation(4, demand_rps=10), catalog, {}, parameters)
    check(publish(draft, None, "nirvana", 0), catalog)
    return draft


@pytest.mark.parametrize("n_workers", [0, 1, 7])
@pytest.mark.parametrize("catalog", [a_ladder(), a_reuse_ladder()], ids=["models", "reuse"])
def test_any_fleet_gets_a_valid_plan_that_the_demand_does_not_change(n_workers: int, catalog: Catalog) -> None:
    quiet, busy = (plan(an_observation(n_workers, demand_rps=d), catalog, {}, {}) for d in (0, 1e5))
    check(publish(busy, None, "nirvana", 0), catalog)
    assert quiet.routes == busy.routes
    assert quiet.allocation == busy.allocation
    assert set(busy.allocation.values()) <= {"heavy"}


def test_every_prompt_may_save_what_its_similarity_allows_up_to_the_last_floor() -> None:
    draft = drafted(a_reuse_ladder(reuse_profile=HALF_REPEAT))
    assert draft.strategy == "reuse"
    assert draft.routes[0].levels == {"heavy~k10": 1.0}, "half of 25 steps, and 10 is the last level within it"
    assert draft.reuse.floors == NIRVANA_FLOORS
    assert (draft.reuse.guard, draft.reuse.check) == (None, None)
    assert draft.reuse.hits["heavy~k10"] == pytest.approx((0.3 * 2 + 0.5 * 10) / 10)


def test_a_profile_s_own_floors_come_before_the_published_ones() -> None:
    own = (ReuseFloor(similarity=0.9, share=0.8),)
    catalog = a_reuse_ladder(reuse_profile=a_reuse_profile(floors=own))
    assert drafted(catalog).reuse.floors == own
    assert drafted(catalog).routes[0].levels == {"heavy~k20": 1.0}
    assert drafted(catalog, floors=1).reuse.floors == NIRVANA_FLOORS


def test_reuse_saves_work_and_loses_what_its_hits_lose() -> None:
    blank, begun = drafted(a_ladder()), drafted(a_reuse_ladder(reuse_profile=HALF_REPEAT))
    hits = (0.3 * 2 + 0.5 * 10) / 10
    assert blank.expected.utilization == pytest.approx(10 * 0.2 / 4)
    assert begun.expected.utilization == pytest.approx(10 * 0.2 / 4 * (hits * 0.6 + (1 - hits)))
    assert begun.expected.quality == pytest.approx(1 - hits * 0.03)


@pytest.mark.parametrize(("jobs", "hits"), [(0, 1.0), (50, 0.56), (100, 0.12), (200, 0.12)])
def test_the_profile_s_hits_count_until_a_hundred_jobs_were_seen(jobs: int, hits: float) -> None:
    seen = lookups(hits={"heavy~k10": ObservedHits(jobs, 0.12)})
    draft = plan(an_observation(4, reuse=seen), a_reuse_ladder(), {}, {})
    assert draft.reuse.hits["heavy~k10"] == pytest.approx(hits)


def test_a_guard_takes_hits_of_other_facts_away() -> None:
    rows = (Neighbours(0.96, 1.0, {"equal": 0.5, "colour": 0.5}),)
    guard = ReuseGuard(equal=0.5)
    catalog = a_reuse_ladder(reuse_profile=a_reuse_profile(neighbours=rows, guard=guard))
    assert drafted(catalog).reuse.hits["heavy~k10"] == pytest.approx(1.0)
    guarded = drafted(catalog, guard=1)
    assert guarded.reuse.guard == guard
    assert guarded.reuse.hits["heavy~k10"] == pytest.approx(0.5)


def test_modm_s_floors_are_those_of_the_image_and_no_worker_takes_them_for_the_prompt_s() -> None:
    images = (Neighbours(0.26, 0.4), Neighbours(0.28, 0.5))
    catalog = a_reuse_ladder(reuse_profile=a_reuse_profile(image_neighbours=images))
    draft = drafted(catalog, floors=2)
    assert draft.reuse.floors == MODM_FLOORS
    assert draft.reuse.key == "text-image"
    assert draft.reuse.hits["heavy~k10"] == pytest.approx((0.4 * 2 + 0.5 * 7) / 10)


def test_floors_by_modm_s_rule_on_the_profile_s_own_encoder_come_before_those_of_clip() -> None:
    own = (ReuseFloor(similarity=0.7, share=0.4),)
    profile = a_reuse_profile(image_neighbours=(Neighbours(0.28, 0.4), Neighbours(0.75, 0.5)), image_floors=own)
    draft = drafted(a_reuse_ladder(reuse_profile=profile), floors=2)
    assert draft.reuse.floors == own
    assert draft.reuse.hits["heavy~k10"] == pytest.approx(0.5)
    assert "the profile's (by MoDM's rule) floors" in draft.reason


@pytest.mark.parametrize(
    ("catalog", "parameters", "reason"),
    [
        (a_ladder(), {}, "the catalog has no profile of reuse, so every image is begun from noise"),
        (a_reuse_ladder(reuse_profile=None), {}, "the catalog has no profile of reuse"),
        (a_reuse_ladder(), {"guard": 1}, "the profile of reuse has no guard"),
        (
            a_reuse_ladder(),
            {"floors": 2},
            "no measurement says from which similarity to stored images on quality holds",
        ),
    ],
)
def test_what_nobody_measured_is_not_reused_and_the_reason_says_so(
    catalog: Catalog, parameters: dict[str, float], reason: str
) -> None:
    draft = drafted(catalog, **parameters)
    assert (draft.strategy, draft.reuse) == ("models", None)
    assert draft.routes[0].levels == {"heavy": 1.0}
    assert reason in draft.reason


def test_shifted_floors_let_more_images_begin_further_along_or_fewer() -> None:
    catalog = a_reuse_ladder(reuse_profile=HALF_REPEAT)
    lower, own, higher = (drafted(catalog, floors=1, shift=shift) for shift in (-0.2, 0.0, 0.3))
    assert own.reuse is not None
    assert [floor.similarity for floor in own.reuse.floors] == [floor.similarity for floor in NIRVANA_FLOORS]
    assert lower.reuse is not None
    assert [floor.similarity for floor in lower.reuse.floors] == pytest.approx([0.45, 0.55, 0.65, 0.7, 0.75])
    assert higher.reuse is not None
    assert [floor.similarity for floor in higher.reuse.floors] == pytest.approx([0.95])
    loads = [draft.expected.utilization for draft in (lower, own, higher) if draft.expected]
    assert loads == sorted(loads)
    assert loads[0] < loads[-1]
    assert "NIRVANA's floors, shifted by -0.2" in lower.reason
