"""A plan's promise of quality is one rule for all policies: its price, its thresholds and its words."""

from dataclasses import replace
from functools import cache

import pytest

from planner.catalog.bands import cascade_table
from planner.catalog.guarantees import Guarantee, Promise
from planner.catalog.model import Catalog
from planner.control.plans import publish
from planner.control.promised import promising
from planner.control.proposal import PlanProposal
from planner.control.propose import Rules, propose
from planner.control.validity import check
from planner.policies import named
from streams.catalogs import measured
from tests.builders import NOW_MS, an_observation

FLOORS = (0.4, 0.8)  # of the two easier bands at .1; the harder ones have none


@cache
def catalog() -> Catalog:
    """The tiny one with promises of our own."""
    shipped = measured("tiny")
    bounds = shipped.measured.bounds if shipped.measured else ()
    rows = tuple(
        Promise(band=band, alpha=0.1, threshold=floor, kept_share=0.5, bound=0.09, n=500)
        for band, floor in enumerate(FLOORS)
    )
    known = {"delta": 0.05, "n": 2000, "date": "2026-11-29", "standard": "facts", "bounds": bounds}
    look = Guarantee(level="light", discriminator="look", rows=rows, **known)  # type: ignore[arg-type]
    heavy = Guarantee(level="heavy", rows=(Promise(alpha=0.08, bound=0.08, n=2000),), **known)  # type: ignore[arg-type]
    return replace(shipped, guarantees=(look, heavy))


def proposed(policy: str, share: float, **parameters: float) -> PlanProposal:
    rules = Rules(quality_at_least=share)
    return propose(named(policy), an_observation(6, demand_rps=4.0), catalog(), {}, parameters, rules)


def test_a_cascade_is_priced_as_it_keeps_drafts_under_the_promise() -> None:
    pair = catalog().pair()
    plain, priced = (cascade_table(each, pair) for each in (catalog(), promising(catalog(), 0.9)))
    for band, floor in enumerate((*FLOORS, 1.0, 1.0)):
        reached = plain.thresholds.index(floor)
        assert priced.deferred[band][0] == plain.deferred[band][reached]
        assert priced.kept[band][0] == plain.kept[band][reached]
        assert priced.deferred[band][-2] == plain.deferred[band][max(reached, len(plain.thresholds) - 2)]
    assert promising(catalog(), 0.9) is promising(catalog(), 0.9), "so that what is derived of it is derived once"


def test_settings_that_keep_what_is_not_promised_are_not_offered() -> None:
    offered = promising(catalog(), 0.9).pair_rows
    assert 0 < len(offered) < len(catalog().pair_rows)
    for row in offered:
        until = 1 - row.router_ratio if row.hardness is None else row.hardness
        least = FLOORS[0] if until <= 0.25 else FLOORS[1] if until <= 0.5 else 1.0
        assert row.threshold is not None
        assert row.threshold >= least or not until, row
    assert promising(catalog(), 0.0) is catalog()


@pytest.mark.parametrize("policy", ["joint", "diffserve", "diffserve-static", "hadis"])
def test_no_policy_publishes_a_threshold_below_the_lowest_promised_one(policy: str) -> None:
    free, bound = proposed(policy, 0.0), proposed(policy, 0.9)
    assert (free.quality_at_least, bound.quality_at_least) == (0.0, 0.9)
    assert all(cascade.threshold >= min(FLOORS) for cascade in bound.cascades)
    plan = publish(bound, None, policy, NOW_MS)
    check(plan, catalog())
    assert plan.quality_at_least == 0.9


def test_a_threshold_that_is_set_by_hand_is_raised_and_the_reason_says_from_where_drafts_are_kept() -> None:
    plan = proposed("diffserve-static", 0.9, threshold=0.1)
    assert [cascade.threshold for cascade in plan.cascades] == [0.4]
    kept = "look keeps drafts of light from 0.40 on at hardness 0 to 0.25, from 0.80 on at hardness 0.25 to 0.5"
    assert (
        f"quality_at_least 0.9: {kept}; no discriminator judges images of heavy: at most 8.0 % of them are wrong"
        in plan.reason
    )


def test_the_promise_costs_work_for_heavy_which_the_plan_expects() -> None:
    free, bound = (proposed("diffserve-static", share, threshold=0.1).expected for share in (0.0, 0.9))
    assert free is not None
    assert bound is not None
    assert bound.heavy_share > free.heavy_share + 0.2


def test_what_no_discriminator_promises_is_kept_by_none_and_the_reason_says_so() -> None:
    plan = proposed("diffserve-static", 0.99)
    assert [cascade.threshold for cascade in plan.cascades] == [1.0]
    assert "look keeps drafts of light nowhere: it promises too little" in plan.reason


def test_a_level_whose_images_are_not_judged_states_its_own_bound_or_that_there_is_none() -> None:
    assert (
        "no discriminator judges images of light, and how many of them are wrong was not measured"
        in proposed("clipper-light", 0.9).reason
    )


def test_where_workers_do_not_suffice_the_promise_stays_and_the_reason_says_so() -> None:
    seen = an_observation(1, demand_rps=400.0)
    plan = propose(named("diffserve"), seen, catalog(), {}, {}, Rules(quality_at_least=0.9))
    assert plan.quality_at_least == 0.9
    assert "the workers do not suffice for all demand so: it is turned away or late, and the promise stays" in (
        plan.reason
    )
