"""Reuse levels, and the staged switch between strategies, plan by plan."""

import re
from collections import Counter

import pytest

from planner.catalog.entries import Classifier
from planner.catalog.measured import Start
from planner.catalog.reuse import Neighbours, ReuseProfile
from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.shedding import sustainable_rps
from planner.control.validity import check
from planner.observation.reuse import ObservedHits, ObservedReuse
from planner.policies.argus import plan
from planner.solvers.levels.level_mix import Mix, mixed_offers, routes_of
from planner.solvers.levels.strategy_switch import LEAVING, MODELS, RETURNING, REUSE
from schemas.messages import ReuseFloor, ReuseGuard
from tests.builders import NO_ANSWER, NOW_MS, a_variant, a_worker, an_observation, lookups
from tests.planner.solvers.levels.builders import a_reuse_ladder, a_reuse_profile, three_variants

GOOD, SLOW = lookups(10.0), lookups(90.0)
PAST = {"heavy~k20": 0.5, "heavy~k10": 0.3, "heavy": 0.2}


def reusing(
    seen: ObservedReuse | None, memory: dict, homes: tuple[str, ...] = ("heavy",) * 4, **changes: object
) -> PlanProposal:
    workers = tuple(a_worker(f"w-{i}", variant) for i, variant in enumerate(homes))
    values = {"demand_rps": 60.0, "classes": {"reuse": PAST}, "workers": workers, "reuse": seen}
    draft = plan(an_observation(**(values | changes)), a_reuse_ladder(), memory, {"overprovision": 1})
    check(publish(draft, None, "argus", NOW_MS), a_reuse_ladder())
    return draft


def rows(draft: PlanProposal) -> dict[str, dict[str, float]]:
    return {route.label: route.levels for route in draft.routes}


def test_with_reuse_levels_all_workers_keep_the_large_model_and_routes_go_to_steps() -> None:
    draft = reusing(GOOD, {})
    assert draft.strategy == "reuse"
    assert set(draft.allocation.values()) == set(draft.batch) == {"heavy"}
    assert set(rows(draft)) == {"", "heavy", "heavy~k10", "heavy~k20"}
    work = sum(60 * rows(draft)[""].get(level, 0) / rps for level, rps in (("heavy", 5), ("heavy~k10", 25 / 3)))
    assert work + 60 * rows(draft)[""]["heavy~k20"] / 25 == pytest.approx(4, rel=1e-4)
    assert draft.expected.utilization == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (SLOW, "a lookup costs 90 ms, is expected to save 120 ms, and 0% get no answer"),
        (NO_ANSWER, "lookups of past images get no answer"),
        (lookups(unanswered=0.3), "and 30% get no answer"),
    ],
    ids=["slow", "silent", "partly silent"],
)
def test_a_slow_or_silent_store_is_left_in_the_next_plan_in_stages_without_routes_to_what_is_not_ready(
    seen: ObservedReuse, why: str
) -> None:
    first = reusing(seen, reusing(GOOD, {}).memory)
    assert (first.strategy, first.memory["stage"]) == ("models", LEAVING)
    assert set(rows(first)[""]) == {"heavy"}, "in full on the large model at once"
    assert 0 < sum(v != "heavy" for v in first.allocation.values()) <= 2, "half of the workers at most are under way"
    assert re.search(f"leaving reuse: .*{why}, . workers? to go", first.reason), first.reason
    half = tuple(first.allocation.values())
    second = reusing(seen, first.memory, half)
    assert set(rows(second)[""]) <= set(half)
    assert set(rows(second)[""]) != {"heavy"}, "smaller models take part as soon as they are ready"
    there = tuple(second.allocation.values())
    third = reusing(seen, second.memory, there)
    assert third.memory["stage"] == MODELS
    assert tuple(third.allocation.values()) == there
    settled = reusing(seen, third.memory, there)
    assert settled.strategy == "models"
    assert re.search(f"without reuse: .*{why}$", settled.reason), settled.reason


def test_on_the_way_to_models_the_solver_takes_a_margin_for_the_smaller_ones() -> None:
    draft = reusing(SLOW, {"stage": LEAVING, "since_ms": -1}, ("light",) * 4, demand_rps=20.0)
    settled = reusing(SLOW, {"stage": MODELS, "since_ms": -1}, ("light",) * 4, demand_rps=20.0)
    assert set(settled.allocation.values()) == {"heavy"}  # four carry 20/s, not 1.5 times that
    assert draft.memory["stage"] == LEAVING
    margin = reusing(SLOW, {"stage": LEAVING, "since_ms": -1}, ("heavy", "heavy", "middle", "middle"), demand_rps=20.0)
    assert margin.memory["stage"] == MODELS


def test_a_fleet_that_left_reuse_routes_by_the_classes_of_models() -> None:
    away = {"stage": MODELS, "since_ms": -1}
    heavy = []  # share of the hardest class that middle has to take
    for easy in (0.1, 0.9):
        classes = {"reuse": PAST, "models": {"light": easy, "heavy": 1 - easy}}
        draft = reusing(SLOW, away, demand_rps=30.0, classes=classes)
        assert draft.strategy == "models"
        heavy.append(rows(draft)["heavy"].get("middle", 0.0))
    assert heavy[0] > heavy[1], heavy


def test_a_store_that_recovered_brings_reuse_back_once_all_hold_the_large_model() -> None:
    away = {"stage": MODELS, "since_ms": -1}
    small = ("middle", "middle", "light", "light")
    waiting = reusing(GOOD, away, small)
    assert waiting.memory == {"stage": MODELS, "since_ms": NOW_MS, "plans": 1}
    for later_s in (5, 10):
        waiting = reusing(GOOD, waiting.memory, small, now_ms=NOW_MS + 1000 * later_s)
        assert waiting.memory["stage"] == MODELS
    back = reusing(GOOD, waiting.memory, small, now_ms=NOW_MS + 15_000)
    assert (back.strategy, back.memory["stage"]) == ("models", RETURNING)
    assert Counter(back.allocation.values())["heavy"] == 2
    homes = tuple(back.allocation.values())
    there = tuple(reusing(GOOD, back.memory, homes).allocation.values())
    assert set(there) == {"heavy"}
    last = reusing(GOOD, back.memory, there)
    assert (last.strategy, last.memory["stage"]) == ("reuse", REUSE), "no plan in full for all of them between"


BACK = {"stage": RETURNING, "since_ms": -1}
RPS = {"heavy": 5.0, "heavy~k10": 25 / 3, "heavy~k20": 25.0, "middle": 12.5, "light": 50.0}
MARGIN = 1.5


def ready(draft: PlanProposal, homes: tuple[str, ...]) -> Counter[str]:
    """Workers that generate with a variant and stay."""
    return Counter(home for home, planned in zip(homes, draft.allocation.values(), strict=True) if home == planned)


def busy(draft: PlanProposal, demand_rps: float) -> Counter[str]:
    """Workers of each variant that the demand would keep busy."""
    found: Counter[str] = Counter()
    for level, share in rows(draft)[""].items():
        found[level.partition("~")[0]] += share * demand_rps / RPS[level]
    return found


@pytest.mark.parametrize("n_heavy", [1, 3, 5, 7])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.99])
def test_on_the_way_back_ready_workers_reuse_and_nobody_gets_more_than_those_that_are_ready_carry(
    n_heavy: int, share: float
) -> None:
    homes = ("heavy",) * n_heavy + ("middle",) * (8 - n_heavy)
    there = ready(reusing(GOOD, BACK, homes), homes)
    most = there["heavy"] * RPS["heavy~k20"] + there["middle"] * RPS["middle"]
    demand = share * most / MARGIN
    draft = reusing(GOOD, BACK, homes, demand_rps=demand)
    assert (draft.strategy, draft.memory["stage"]) == ("models", RETURNING)
    used = busy(draft, MARGIN * demand)
    assert set(used) <= set(there)
    for variant, workers in there.items():
        assert used[variant] <= workers + 1e-4, (variant, used, there)
    in_full = there["heavy"] * RPS["heavy"] + there["middle"] * RPS["middle"]
    assert MARGIN * demand <= in_full or any("~" in level for level in rows(draft)[""])


def test_on_the_way_back_what_nobody_carries_goes_to_the_fastest_level_of_each() -> None:
    homes = ("heavy",) * 2 + ("middle",) * 6
    there = ready(reusing(GOOD, BACK, homes), homes)
    assert there == {"heavy": 2, "middle": 2}, "half of the workers are on their way"
    draft = reusing(GOOD, BACK, homes, demand_rps=1000.0)
    carried = {"heavy~k20": there["heavy"] * 25, "middle": there["middle"] * 12.5}
    assert rows(draft)[""] == pytest.approx({name: rps / sum(carried.values()) for name, rps in carried.items()})


def test_on_the_way_back_open_breakers_are_taken_to_save_nothing() -> None:
    homes, demand = ("heavy",) * 7 + ("middle",), 40.0
    some = reusing(lookups(10.0, failing=0.25), BACK, homes, demand_rps=demand)
    assert some.memory["stage"] == RETURNING
    faster, slower = (
        rows(draft)[""].get("heavy~k20", 0.0) for draft in (some, reusing(GOOD, BACK, homes, demand_rps=demand))
    )
    assert faster > slower + 0.01, "more has to begin late where a quarter of it will not"


def test_on_the_way_back_routes_go_by_the_classes_of_models_and_hard_prompts_get_the_better_levels() -> None:
    homes, classes = ("heavy",) * 2 + ("light",) * 6, {"reuse": PAST, "models": {"light": 0.5, "heavy": 0.5}}
    draft = reusing(GOOD, BACK, homes, demand_rps=70.0, classes=classes)
    assert set(rows(draft)) == {"", "light", "heavy"}
    on_light = {label: rows(draft)[label].get("light", 0.0) for label in ("light", "heavy")}
    assert on_light["light"] > on_light["heavy"] + 0.5, rows(draft)


def test_a_class_loses_on_a_reuse_level_what_its_images_are_worse_by_in_the_mean() -> None:
    """Hard prompts lose .1 on light and .5 on images begun late; what costs nothing by any table is not free."""
    variants = three_variants() | {"light": a_variant(quality=0.9)}
    catalog = a_reuse_ladder(
        variants=variants,
        reuse={"heavy": (Start(20, 0.2, 0.5),)},
        classifiers={"past": Classifier("past", "learned", "folder", "reuse", ("heavy~k20", "heavy"))},
    )
    offers = mixed_offers(catalog, 1, {"heavy~k20": 1.0})
    assert [offer.level for offer in offers] == ["heavy", "middle", "heavy~k20", "light"]
    mix = Mix({"heavy": 2, "light": 1}, {"heavy": 0.3, "heavy~k20": 0.3, "light": 0.4}, 1.0)
    routes, _ = routes_of(mix, offers, catalog, "models", {"light": 0.5, "heavy": 0.5})
    hard = next(route.levels for route in routes if route.label == "heavy")
    assert hard == pytest.approx({"heavy": 0.6, "light": 0.4}, abs=0.01)


def test_a_store_that_fails_on_the_way_back_is_left_again() -> None:
    homes = ("heavy",) * 6 + ("middle",) * 2
    draft = reusing(NO_ANSWER, BACK, homes)
    assert draft.memory["stage"] == LEAVING
    assert not any("~" in level for route in draft.routes for level in route.levels)


def test_without_the_switch_a_dead_store_changes_nothing() -> None:
    seen = an_observation(4, demand_rps=60, classes={"reuse": PAST}, reuse=NO_ANSWER)
    assert plan(seen, a_reuse_ladder(), {}, {"switch": 0}).strategy == "reuse"
    assert plan(seen, a_reuse_ladder(), {}, {}).strategy == "models"
    assert plan(seen, a_reuse_ladder(), {}, {"reuse": 0}).memory == {}


def test_as_published_any_neighbour_will_do_and_every_image_is_stored() -> None:
    reuse = reusing(GOOD, {}).reuse
    assert [(floor.similarity, floor.share) for floor in reuse.floors] == [(-1.0, 20 / 25)]
    assert (reuse.guard, reuse.check) == (None, None)
    assert reuse.storage.share == 1.0


def test_guarded_it_takes_the_profile_s_floors_and_guard_and_the_catalog_s_check() -> None:
    floors, guard = (ReuseFloor(similarity=0.9, share=0.8),), ReuseGuard(equal=0.8)
    rows = (Neighbours(0.96, 0.5, {"equal": 0.4, "colour": 0.6}),)
    profile = a_reuse_profile(neighbours=rows, floors=floors, guard=guard)
    draft = plan(an_observation(4), a_reuse_ladder(reuse_profile=profile), {}, {"guarded": 1})
    assert (draft.reuse.floors, draft.reuse.guard) == (floors, guard)
    assert draft.reuse.check.discriminator == "look"
    assert draft.reuse.hits == pytest.approx({"heavy~k20": 0.2}), "the level on which the floors were tested"


GUARDED = a_reuse_profile(
    neighbours=(Neighbours(0.96, 0.5, {"equal": 0.4, "colour": 0.6}),),
    floors=(ReuseFloor(similarity=0.9, share=0.8),),
    guard=ReuseGuard(equal=0.8),
)  # one in five begins after 20 of 25 steps, so that a large worker carries 5.95 a second instead of 5


def guarded(demand_rps: float, memory: dict, homes: tuple[str, ...] = ("heavy",) * 4, later_s: int = 0) -> PlanProposal:
    workers = tuple(a_worker(f"w-{i}", variant) for i, variant in enumerate(homes))
    seen = an_observation(demand_rps=demand_rps, workers=workers, reuse=lookups(5.0), now_ms=NOW_MS + 1000 * later_s)
    return plan(seen, a_reuse_ladder(reuse_profile=GUARDED), memory, {"guarded": 1, "overprovision": 1})


def test_a_guarded_fleet_that_cannot_carry_the_demand_goes_over_to_smaller_models_though_lookups_are_healthy() -> None:
    assert guarded(23.0, {}).strategy == "reuse"
    first = guarded(30.0, {})
    assert (first.strategy, first.memory["stage"]) == ("models", LEAVING)
    assert "heavy~k20" in rows(first)[""], "those that stay reuse on the way"
    homes = tuple(first.allocation.values())
    for _ in range(3):
        first = guarded(30.0, first.memory, homes)
        homes = tuple(first.allocation.values())
    assert first.memory["stage"] == MODELS
    assert first.expected.utilization <= 1


def test_a_guarded_fleet_that_is_away_as_prompts_do_not_repeat_has_a_tenth_of_its_requests_looked_up() -> None:
    def away(hits: float) -> PlanProposal:
        workers = tuple(a_worker(f"w-{i}", "heavy") for i in range(4))
        reuse = lookups(5.0, hits={"heavy~k20": ObservedHits(200, hits)})
        seen = an_observation(demand_rps=10.0, workers=workers, reuse=reuse)
        return plan(seen, a_reuse_ladder(reuse_profile=GUARDED), {"stage": MODELS, "since_ms": -1}, {"guarded": 1})

    assert rows(away(0.0))[""] == pytest.approx({"heavy": 0.9, "heavy~k20": 0.1})
    assert "10% of the requests for heavy are looked up" in away(0.0).reason
    assert rows(away(0.2))[""] == pytest.approx({"heavy": 1.0}), "as often as profiled"


def test_a_guarded_fleet_comes_back_once_it_could_carry_a_margin_more_for_a_while() -> None:
    homes = ("middle", "middle", "light", "light")
    waiting = guarded(20.0, {"stage": MODELS, "since_ms": -1}, homes)
    assert waiting.memory["since_ms"] == -1, "1.5 times 20 is more than the 23.8 that it carries"
    for later_s in (0, 5, 10, 15):
        waiting = guarded(12.0, waiting.memory, homes, later_s)
    assert waiting.memory["stage"] == RETURNING


def test_as_published_a_fleet_stays_with_reuse_whatever_the_demand() -> None:
    assert reusing(GOOD, {}, demand_rps=500.0).memory["stage"] == REUSE


@pytest.mark.parametrize(
    ("profile", "parameters", "reason"),
    [
        (None, {}, "catalog has no profile of reuse"),
        (a_reuse_profile(), {"guarded": 1}, "profile of reuse has no floors and guard"),
    ],
)
def test_what_nobody_measured_is_not_reused_and_the_reason_says_so(
    profile: ReuseProfile | None, parameters: dict[str, float], reason: str
) -> None:
    draft = plan(an_observation(4), a_reuse_ladder(reuse_profile=profile), {}, parameters)
    assert (draft.strategy, draft.reuse) == ("models", None)
    assert f"nothing is reused, as the {reason}" in draft.reason


def test_a_level_costs_and_is_worth_its_hits_and_its_misses() -> None:
    half = a_reuse_profile(neighbours=(Neighbours(0.96, 0.5),))
    for demand, quality in ((20 / (1 - 0.5 * 0.8), 1 - 0.5 * 0.1), (20 / (1 - 0.5 * 0.4), 1 - 0.5 * 0.03)):
        seen = an_observation(4, demand_rps=demand, classes={"reuse": PAST})
        draft = plan(seen, a_reuse_ladder(reuse_profile=half), {}, {"overprovision": 1})
        assert draft.expected.utilization == pytest.approx(1, rel=1e-3), "four workers carry as many, misses included"
        assert draft.expected.quality == pytest.approx(quality, abs=0.005)
        assert sustainable_rps(draft, seen, a_reuse_ladder(reuse_profile=half)) == pytest.approx(demand, rel=1e-3)


def test_more_than_all_hits_can_carry_is_said_to_be_saturated() -> None:
    half = a_reuse_profile(neighbours=(Neighbours(0.96, 0.5),))
    draft = plan(an_observation(4, demand_rps=100), a_reuse_ladder(reuse_profile=half), {}, {"overprovision": 1})
    assert set(draft.routes[-1].levels) == {"heavy~k20"}
    assert "12 workers would serve all" in draft.reason


def test_while_the_fleet_is_away_the_plan_still_asks_for_lookups_in_the_background() -> None:
    away = reusing(NO_ANSWER, {"stage": MODELS, "since_ms": -1}, ("light",) * 4)
    assert away.strategy == "models"
    assert away.reuse == reusing(GOOD, {}).reuse
    assert not any("~" in level for route in away.routes for level in route.levels)


def test_a_lookup_that_seldom_hits_is_sooner_too_slow() -> None:
    """20 ms are little of the 120 ms that a hit saves in the mean, but not where one in ten hits."""
    rare = a_reuse_profile(neighbours=(Neighbours(0.96, 0.1),))
    seen = an_observation(4, reuse=lookups(20.0))
    assert plan(seen, a_reuse_ladder(), {}, {}).memory["stage"] == REUSE
    assert plan(seen, a_reuse_ladder(reuse_profile=rare), {}, {}).memory["stage"] == LEAVING
