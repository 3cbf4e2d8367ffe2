"""Everything odd that a planner may be given, and what each policy makes of it: one plan that holds, or a clear error.

The list is that of planner/README.md. What is refused before it is planned with is in test_observation.py and
test_catalog.py; what readers and roles make of bad records is tested beside them.
"""

import dataclasses
import json
import math
from typing import Any

import pytest

from planner.catalog.entries import DeferralPoint
from planner.catalog.model import Catalog, Cut
from planner.control.evaluate import evaluate
from planner.control.plans import memory_of, publish
from planner.control.renewal.replan import HOLD_S, change_of, only_moves, should_switch
from planner.control.shedding import with_admission
from planner.control.validity import check
from planner.observation.deferral import ObservedDeferral, observed_deferral
from planner.observation.observation import Observation, Queue, Served, hardness_shares
from planner.policies import POLICIES, PlanProposal, named
from planner.serving.routing.placement import choose_level
from schemas.errors import PochadeError
from tests.builders import NOW_MS, a_catalog, a_discriminator, a_variant, a_worker, an_observation

every_policy = pytest.mark.parametrize("name", sorted(POLICIES))
NEED_A_CASCADE = {"diffserve", "diffserve-static", "hadis"}
HARDNESSES = (0.0, 0.3, 0.5, 0.999, 1.0)
LABELS = ("light", "heavy", "never seen", "")


def planned(
    name: str, seen: Observation, catalog: Catalog | None = None, memory: dict[str, Any] | None = None
) -> PlanProposal:
    """The policy's draft after everything that follows a policy, held to what must be true of any plan."""
    offered = catalog or a_catalog()
    proposal = with_admission(named(name)(seen, offered, memory or {}, {}), seen, offered)
    plan = publish(proposal, None, name, seen.now_ms)
    check(plan, offered)
    assert plan.reason
    assert proposal.allocation.keys() == {worker.worker_id for worker in seen.workers}
    assert proposal.expected
    for figure in (proposal.expected.utilization, proposal.expected.heavy_share, proposal.expected.demand_rps):
        assert math.isfinite(figure)
        assert figure >= 0
    assert proposal.expected.quality is None or math.isfinite(proposal.expected.quality)
    json.loads(plan.memory)
    served = set(proposal.allocation.values())
    for hardness in HARDNESSES:
        for label in LABELS:
            level = choose_level(plan, "r-1", hardness, {proposal.strategy: label}).level
            assert not served or level.partition("~")[0] in served
    evaluate(proposal, seen, offered)
    only_moves(proposal, seen, plan)
    should_switch(change_of(plan, proposal, seen, offered, HOLD_S))
    return proposal


@every_policy
@pytest.mark.parametrize("demand_rps", [0.0, 1e-9, 1e9])
def test_no_demand_and_a_senseless_one_are_planned_for(name: str, demand_rps: float) -> None:
    proposal = planned(name, an_observation(3, demand_rps=demand_rps, slo_ms=1000.0))
    assert (proposal.admission is None) == (demand_rps < 1e9), "only what the workers cannot generate is shed"


@every_policy
@pytest.mark.parametrize("n_workers", [0, 1])
@pytest.mark.parametrize("demand_rps", [0.0, 10.0, 1e4])
def test_no_worker_and_one_worker_are_fleets(name: str, n_workers: int, demand_rps: float) -> None:
    proposal = planned(name, an_observation(n_workers, demand_rps=demand_rps, slo_ms=1000.0))
    assert proposal.admission is None or n_workers, "without a worker requests wait for one"


def of(light: dict[str, Any], heavy: dict[str, Any]) -> Catalog:
    """The catalog with something of its levels changed."""
    cheap, dear = a_catalog().variants.values()
    both = {"light": dataclasses.replace(cheap, **light), "heavy": dataclasses.replace(dear, **heavy)}
    return a_catalog(variants=both)


ALIKE = {"latency_ms": {1: 20.0}, "quality": 0.8}
GAP = a_discriminator(deferral=(DeferralPoint(0.4, 0.5), DeferralPoint(0.6, 0.5)))
HOLES = {
    "one batch size": of({"latency_ms": {1: 20.0}}, {"latency_ms": {1: 200.0}}),
    "an odd batch size alone": of({}, {"latency_ms": {1: 200.0, 7: 900.0}}),
    "no quality": of({"quality": None}, {"quality": None}),
    "one quality": of({"quality": None}, {}),
    "the dear level is the worse": of({}, {"quality": 0.1}),
    "all levels alike": of(ALIKE, ALIKE),
    "a gap in the deferral curve": a_catalog(discriminators={"look": GAP}),
    "no classes": a_catalog(class_cuts={}),
    "one class": a_catalog(class_cuts={"models": (Cut("heavy", 1.0),)}),
}


@every_policy
@pytest.mark.parametrize("hole", sorted(HOLES))
def test_a_profile_with_holes_is_planned_with_what_is_there(name: str, hole: str) -> None:
    for slo_ms in (0.0, 50.0, 5000.0):
        planned(name, an_observation(3, slo_ms=slo_ms), HOLES[hole])


@every_policy
def test_a_catalog_of_one_level_is_all_on_it_or_a_clear_error(name: str) -> None:
    catalog = a_catalog(variants={"light": a_variant()}, discriminators={}, cascades=(), class_cuts={})
    if name in NEED_A_CASCADE:
        with pytest.raises(PochadeError, match="cascade"):
            planned(name, an_observation(3), catalog)
        return
    assert set(planned(name, an_observation(3), catalog).allocation.values()) == {"light"}


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"latency_ms": {1: -20.0}}, "latency_ms at 1 must be > 0: got -20.0"),
        ({"latency_ms": {1: 0.0}}, "must be > 0: got 0.0"),
        ({"latency_ms": {1: math.nan}}, "must be > 0: got nan"),
        ({"latency_ms": {1: math.inf}}, "must be > 0: got inf"),
        ({"latency_ms": {1: 20.0, 2: 10.0}}, "growing with the batch size"),
        ({"latency_ms": {2: 10.0}}, "measured at batch size 1"),
        ({"latency_ms": {}}, "measured at batch size 1"),
        ({"quality": math.nan}, "quality must be finite"),
        ({"load_ms": -1.0}, "load_ms must be >= 0"),
        ({"steps": 0}, "steps must be >= 1"),
    ],
)
def test_nonsense_in_a_profile_is_refused_before_any_policy_sees_it(changes: dict[str, Any], reported: str) -> None:
    with pytest.raises(PochadeError, match=reported) as raised:
        a_variant(**changes)
    assert "'light'" in str(raised.value), "it names the level"


@every_policy
@pytest.mark.parametrize("hardness", [(), (1.0,), (0.0,) * 9 + (1.0,)])
def test_classes_never_seen_and_prompts_of_one_kind_are_routed(name: str, hardness: tuple[float, ...]) -> None:
    for classes in ({}, {"models": {"never seen": 1.0}}, {"models": {"heavy": 1.0}}, {"other": {"light": 1.0}}):
        planned(name, an_observation(3, classes=classes, hardness=hardness))


def senseless_curves() -> dict[str, ObservedDeferral]:
    scores = [(0.5, math.nan), (math.nan, 0.5), (0.5, -1.0), (0.5, math.inf), (2.0, 0.5)] * 100
    return {
        "no number among them": observed_deferral("light", "look", scores),
        "too few": observed_deferral("light", "look", [(0.5, 0.5)] * 99),
        "all alike": observed_deferral("light", "look", [(0.5, 0.5)] * 1000),
        "all sure": observed_deferral("light", "look", [(0.5, 1.0)] * 1000),
        "all unsure": observed_deferral("light", "look", [(0.5, 0.0)] * 1000),
        "of one band": observed_deferral("light", "look", [(0.05, 0.5)] * 1000, (0.0, 0.1, 1.0)),
        "of a level that is no more": observed_deferral("gone", "look", [(0.5, 0.5)] * 1000),
        "of a judge that is no more": observed_deferral("light", "gone", [(0.5, 0.5)] * 1000),
    }


@every_policy
@pytest.mark.parametrize("how", sorted(senseless_curves()))
def test_confidences_that_are_none_and_thresholds_that_nothing_supports_are_planned_with(name: str, how: str) -> None:
    planned(name, an_observation(3, deferral=(senseless_curves()[how],), slo_ms=2000.0))


def test_confidences_that_are_no_number_are_counted_and_the_catalogs_curve_holds() -> None:
    curve = senseless_curves()["no number among them"]
    assert (curve.ignored, curve.images, curve.curves) == (500, 0, (None,))
    unseen = planned("diffserve", an_observation(3, slo_ms=2000.0))
    assert planned("diffserve", an_observation(3, slo_ms=2000.0, deferral=(curve,))) == unseen
    assert hardness_shares([math.nan, -1.0, 2.0]) == ()


@every_policy
def test_a_clock_that_jumps_back_makes_a_plan_and_forgets_nothing(name: str) -> None:
    seen = an_observation(3, slo_ms=1000.0, served=Served(10, in_time=0.9))
    first = planned(name, seen)
    memory = memory_of(publish(first, None, name, NOW_MS), name)
    for now_ms in (NOW_MS - 3_600_000, 0, -1):
        workers = tuple(dataclasses.replace(worker, seen_ms=NOW_MS) for worker in seen.workers)
        proposal = planned(name, dataclasses.replace(seen, now_ms=now_ms, workers=workers), memory=memory)
        assert proposal.allocation.keys() == first.allocation.keys()


@every_policy
def test_a_memory_that_another_release_wrote_is_planned_with(name: str) -> None:
    for memory in ({"what": "is this"}, {"batch": {"gone": 3}}, {"kept": {}}):
        planned(name, an_observation(3, slo_ms=1000.0, served=Served(10, in_time=0.9)), memory=memory)


@every_policy
def test_workers_in_every_state_on_variants_that_are_no_more_and_with_work_for_a_year_are_planned_with(
    name: str,
) -> None:
    workers = (
        a_worker("w-1", "gone", remaining_ms=3e10), a_worker("w-2", "", state="starting"),
        a_worker("w-3", "light", state="loading", allocated="gone"), a_worker("w-4", "heavy", state="draining"),
    )  # fmt: skip
    queues = Queue("gone", 1e9, 0.0), Queue("light", 1e9, 1e-9), Queue("heavy", 0.0, 1e9)
    planned(name, an_observation(workers=workers, queues=queues, slo_ms=1000.0))


@every_policy
def test_an_slo_that_nothing_meets_is_a_plan_too(name: str) -> None:
    planned(name, an_observation(3, slo_ms=0.001))
