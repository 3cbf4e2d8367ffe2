"""The simulator's router decides as the live one does, on the very same logic."""

import dataclasses
import random
from collections import Counter

from planner.serving.admission.quotas import Quota
from planner.serving.decisions import QUOTA, UNHONOURED, Rejection
from planner.serving.ending.outcomes import is_overdue
from planner.serving.routing.placement import Placement
from planner.serving.routing.routing import NO_LIMITS
from replay.simulation.setup import Timing
from schemas.messages import GenerateOptions
from tests.builders import NOW_MS, a_catalog, a_classified, a_plan, a_request
from tests.replay.simulation.roles.routing.routers import (
    Carried,
    Live,
    LiveRerouter,
    Observed,
    Simulated,
    SimulatedRerouter,
    Situation,
    random_situation,
)

SITUATIONS, ORPHANS = 500, 200


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


class QuotaBeforeOptions(Observed):
    """The last two checks, exchanged."""

    _unhonoured, _beyond_rights = Observed._beyond_rights, Observed._unhonoured


def test_checks_that_are_exchanged_in_the_logic_change_both_routers() -> None:
    situation = Situation(a_catalog(), a_plan(), NO_LIMITS, quotas={"acme": Quota(rate_rps=0.001, burst=1)})
    first = a_classified(a_request(request_id="r-1", tenant="acme"))
    strict = GenerateOptions(steps=50, strict=True)
    second = a_classified(a_request(request_id="r-2", tenant="acme", options=strict))
    for kind, code in ((Observed, UNHONOURED), (QuotaBeforeOptions, QUOTA)):
        for router in (Live(situation, kind), Simulated(situation, kind)):
            assert router.serve(first).level == "light"
            assert router.serve(second) == Carried(status="REJECTED", code=code)
