"""The simulator's router decides as the live one does, on the very same logic."""

import dataclasses
import random
from collections import Counter
from unittest import mock

import pytest

from planner.serving.admission.quotas import Quota
from planner.serving.deadlines import is_overdue
from planner.serving.decisions import QUOTA, UNHONOURED, Rejection
from planner.serving.requests import ClassifiedValues
from planner.serving.routing.composing import ANYWHERE, Fit
from planner.serving.routing.placement import Placement
from planner.serving.routing.routing import NO_LIMITS, Loads
from replay.simulation.setup import Timing
from schemas.messages import GenerateOptions, Plan, WorkerComponents
from tests.builders import NOW_MS, a_catalog, a_classified, a_heartbeat, a_plan, a_request, owned, sized_variant
from tests.replay.simulation.roles.routing.routers import (
    Beat,
    Carried,
    Decision,
    Live,
    LiveRerouter,
    Observed,
    Simulated,
    SimulatedRerouter,
    Situation,
    random_situation,
)

SITUATIONS, ORPHANS = 500, 200
RUN_MS, LOAD_MS = 50.0, 1000.0


def test_both_routers_decide_alike_in_any_situation() -> None:
    met = Counter[str]()
    for seed in range(SITUATIONS):
        situation = random_situation(random.Random(seed))
        live, simulated = Live(situation), Simulated(situation)
        for nth, classified in enumerate(situation.requests):
            where = f"request {nth} of situation {seed}"
            done, shown = live.serve(classified), simulated.serve(classified)
            assert simulated.logic.decision == live.logic.decision, where
            if done.level and done.partition is None:  # nobody serves the level: the record's key decides
                done = done._replace(partition=shown.partition)
            assert shown == done, where
            met[_kind(live.logic.decision)] += 1
    assert met.keys() == {
        "placed", "placed on cheaper-level", "placed on dearer-level", "Ignored", "deadline", "overloaded", "quota",
        "shed", "unhonoured",
    }  # fmt: skip
    assert min(met.values()) >= 10


def _kind(decision: object) -> str:
    if isinstance(decision, Placement):
        return f"placed on {decision.fallback}" if decision.fallback else "placed"
    return decision.code if isinstance(decision, Rejection) else type(decision).__name__


def test_both_rerouters_decide_alike_on_a_job_of_a_variant_that_lost_its_workers() -> None:
    met = Counter[str]()
    for seed in range(ORPHANS):
        dice = random.Random(seed)
        situation, has_draft = random_situation(dice), dice.random() < 0.2
        variant, classified = dice.choice(sorted(situation.catalog.variants)), situation.requests[0]
        situation.beats = [beat for beat in situation.beats if beat.heartbeat.variant != variant]
        allocation = {beat.heartbeat.worker_id: beat.heartbeat.variant for beat in situation.beats}
        situation.plan = dataclasses.replace(situation.plan, allocation=allocation)
        if dice.random() < 0.1:
            late = dataclasses.replace(classified.request, deadline_ms=NOW_MS - 10_000)
            classified = dataclasses.replace(classified, request=late)
        request = classified.request
        situation.ended = {request.request_id} if is_overdue(request.deadline_ms, NOW_MS, Timing().grace_ms) else set()
        done = LiveRerouter(situation, variant).serve(classified, has_draft=has_draft)
        shown = SimulatedRerouter(situation, variant).serve(classified, has_draft=has_draft)
        assert shown == done, f"situation {seed}"
        met["stays" if done is None else done.status or "placed"] += 1
    assert met.keys() == {"stays", "placed", "EXPIRED", "REJECTED", "COMPLETED"}


def held(by_worker: dict[str, WorkerComponents | None], busy_ms: int = 0) -> Situation:
    """Workers of a variant with two bases, by what they report to hold; the first has this much to do."""
    styles = sized_variant(latency_ms={1: RUN_MS}, load_ms=LOAD_MS)
    beats = [
        Beat(
            a_heartbeat(
                worker_id=name,
                variant="styles",
                components=report,
                partitions=(owned(nth, 5, 0 if nth else busy_ms),),
            ),
            NOW_MS,
        )
        for nth, (name, report) in enumerate(by_worker.items())
    ]
    return Situation(a_catalog(on_request={"styles": styles}), a_plan(), NO_LIMITS, beats)


POSTER, CHALK = (WorkerComponents(held={"device": (f"base:{name}",)}) for name in ("poster", "chalk"))


@pytest.mark.parametrize(
    ("situation", "begins_ms"),
    [
        (held({"a": POSTER, "b": CHALK}), 0.0),
        (held({"a": CHALK, "b": CHALK}), LOAD_MS),
        (held({"a": POSTER, "b": CHALK}, busy_ms=400), 400.0),  # sooner than to load it beside
        (held({"a": POSTER, "b": CHALK}, busy_ms=2000), LOAD_MS),
        (held({"a": WorkerComponents(held={"host": ("base:poster",)})}), LOAD_MS),  # from no tier was it measured
        (held({"a": None}), 0.0),  # it reports no components: an engine without tiers
    ],
)
def test_a_deadline_must_leave_time_to_load_the_components_that_no_free_worker_holds(
    situation: Situation, begins_ms: float
) -> None:
    for slack_ms, status in ((begins_ms + RUN_MS + 1, ""), (begins_ms + RUN_MS - 1, "EXPIRED")):
        request = a_request(options=GenerateOptions(model="poster"), deadline_ms=NOW_MS + round(slack_ms))
        for router in (Live(situation), Simulated(situation)):
            done = router.serve(a_classified(request))
            assert (done.status, done.level) == (status, "" if status else "styles"), f"{slack_ms} ms before it is due"


def test_a_request_without_a_deadline_asks_nobody_what_they_lack() -> None:
    class Asking(Observed):
        def route(self, classified: ClassifiedValues, plan: Plan, loads: Loads, now_ms: float) -> Decision:
            with mock.patch.object(type(loads), "ready_ms", side_effect=AssertionError):
                return super().route(classified, plan, loads, now_ms)

    situation = held({"a": CHALK})
    for router in (Live(situation, Asking), Simulated(situation, Asking)):
        assert router.serve(a_classified(a_request(options=GenerateOptions(model="poster")))).level == "styles"


class Anywhere:
    def of(self, options: GenerateOptions, quality: str) -> Fit:
        del options, quality
        return ANYWHERE


class AnyOptions(Observed):
    """Without the check of options, so that the quota is the first that fails."""

    _fits = property(lambda _: Anywhere(), lambda _, __: None)


def test_a_check_that_is_taken_out_of_the_logic_changes_both_routers() -> None:
    situation = Situation(a_catalog(), a_plan(), NO_LIMITS, quotas={"acme": Quota(rate_rps=0.001, burst=1)})
    first = a_classified(a_request(request_id="r-1", tenant="acme"))
    strict = GenerateOptions(steps=50, strict=True)
    second = a_classified(a_request(request_id="r-2", tenant="acme", options=strict))
    for kind, code in ((Observed, UNHONOURED), (AnyOptions, QUOTA)):
        for router in (Live(situation, kind), Simulated(situation, kind)):
            assert router.serve(first).level == "light"
            assert router.serve(second) == Carried(status="REJECTED", code=code)
