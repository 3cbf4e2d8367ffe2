"""The load that a draft puts on each variant, and what is said to bind."""

import dataclasses
import math

import pytest

from planner.catalog.measured import CascadeBands, Measured
from planner.control.evaluate import evaluate
from planner.control.proposal import PlanProposal
from planner.observation.observation import Queue
from schemas.messages import Route
from tests.builders import a_cascade, a_catalog, a_worker, an_observation

HALF = Route(levels={"light": 1.0}, hardness_to=0.5), Route(levels={"heavy": 1.0}, hardness_from=0.5)


def a_draft(**changes: object) -> PlanProposal:
    proposal = PlanProposal(
        routes=(Route(levels={"light": 1.0}),), cascades=(a_cascade(threshold=0.5),),
        allocation={"w-1": "light", "w-2": "heavy"}, batch={"light": 1, "heavy": 1}, reason="",
    )  # fmt: skip
    return dataclasses.replace(proposal, **changes)  # type: ignore[arg-type]


def loads(proposal: PlanProposal, **seen: object) -> dict[str, tuple[float, float]]:
    found = evaluate(proposal, an_observation(**seen), a_catalog()).loads
    return {load.variant: (load.offered_rps, load.capacity_rps) for load in found}


def test_what_a_cascade_generates_again_counts_on_the_next_level() -> None:
    assert loads(a_draft()) == {"light": (10.0, pytest.approx(50.0)), "heavy": (pytest.approx(5.0), pytest.approx(5.0))}


def test_a_batch_raises_what_a_worker_can_take() -> None:
    assert loads(a_draft(batch={"light": 4, "heavy": 4}))["heavy"][1] == pytest.approx(10.0)


def test_refining_a_draft_skips_its_share_of_the_call() -> None:
    proposal = a_draft(cascades=(a_cascade(threshold=0.5, refine_from_step=5),))
    assert loads(proposal)["heavy"][1] == pytest.approx(5.0 * 25 / 20)


def test_routes_by_hardness_take_the_share_of_prompts_that_are_so_hard() -> None:
    proposal = a_draft(routes=HALF, cascades=())
    assert loads(proposal)["heavy"][0] == pytest.approx(5.0), "hardness not seen: as in the reference set"
    hard = (0.0,) * 9 + (1.0,)
    assert loads(proposal, hardness=hard)["heavy"][0] == pytest.approx(10.0)


def test_what_a_cascade_generates_again_is_told_of_all_bands_where_neither_hardness_nor_prompts_are_known() -> None:
    bands = CascadeBands((0.0, 0.5, 1.0), ((0.0, 0.2, 1.0), (0.0, 0.8, 1.0)))
    measured = Measured(bounds=(0.0, 0.5, 1.0), quality={}, cascades={a_catalog().pair().key: bands})
    found = evaluate(a_draft(), an_observation(), a_catalog(measured=measured)).loads
    assert {load.variant: load.offered_rps for load in found} == {"light": 10.0, "heavy": pytest.approx(5.0)}


def test_routes_by_class_take_the_share_of_the_class() -> None:
    routes = Route(levels={"light": 1.0}, label="light"), Route(levels={"heavy": 1.0}, label="heavy")
    proposal = a_draft(routes=routes, cascades=())
    assert loads(proposal, classes={"models": {"light": 0.8, "heavy": 0.2}})["heavy"][0] == pytest.approx(2.0)
    assert loads(proposal)["heavy"][0] == pytest.approx(5.0), "no class seen: all alike"
    mixed = a_draft(routes=(routes[1], *HALF), cascades=())
    shares = loads(mixed, classes={"models": {"light": 0.8, "heavy": 0.2}})
    assert shares["heavy"][0] == pytest.approx(2.0 + 4.0), "a class without a route goes by hardness"


def test_the_demand_planned_for_counts_not_the_one_seen() -> None:
    assert loads(a_draft(), forecast_rps=20.0)["light"][0] == pytest.approx(20.0)


def test_a_full_variant_binds_and_one_with_room_does_not() -> None:
    (limit,) = evaluate(a_draft(), an_observation(), a_catalog()).binding
    assert limit == "heavy: its 1 worker would be 100% busy"
    assert evaluate(a_draft(), an_observation(demand_rps=5.0), a_catalog()).binding == ()


def test_a_level_that_nobody_serves_binds() -> None:
    found = evaluate(a_draft(allocation={"w-1": "light"}), an_observation(), a_catalog())
    assert "no worker serves heavy" in found.binding[0]
    assert {load.variant: load.utilization for load in found.loads}["heavy"] == math.inf


def test_the_longest_way_counts_waits_both_calls_and_judging() -> None:
    seen = an_observation(demand_rps=1.0, slo_ms=500.0, queues=(Queue("heavy", 4.0, 16.0),))
    found = evaluate(a_draft(), seen, a_catalog())
    assert found.latency_ms == pytest.approx(20 + 1 + 250 + 200)
    assert found.binding == ("the SLO of 0.5 s: the slowest path takes 0.47 s",)


def test_nothing_is_asked_of_anybody_where_there_is_no_demand() -> None:
    found = evaluate(a_draft(), an_observation(demand_rps=0.0), a_catalog())
    assert [load.utilization for load in found.loads] == [0.0, 0.0]
    assert found.binding == ()


def test_a_fleet_without_workers_is_evaluated() -> None:
    proposal = a_draft(allocation={})
    assert len(evaluate(proposal, an_observation(0), a_catalog()).binding) == 2
    assert a_worker().home == "light"
