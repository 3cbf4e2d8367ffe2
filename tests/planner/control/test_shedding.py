"""Who is let in where the workers cannot generate everything: the lowest tiers are shed first, by one rule for all."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.control.plans import publish
from planner.control.renewal.same_plan import decide_alike
from planner.control.shedding import shares_by_tier, sustainable_rps, with_admission
from planner.control.validity import check
from planner.policies import POLICIES, PlanProposal, named
from planner.serving.decisions import SHED, Ignored, Rejection
from planner.serving.routing.placement import Placement
from planner.serving.routing.routing import NO_LIMITS, RoutingLogic, is_admitted
from schemas.errors import InvalidPlan
from schemas.messages import TIERS, Admission, Route, Status
from tests.builders import (
    NOW_MS,
    a_cascade,
    a_catalog,
    a_classified,
    a_plan,
    a_request,
    a_worker,
    an_observation,
)
from tests.planner.serving.workers import FixedLoads

MIXED = {"interactive": 0.25, "standard": 0.5, "batch": 0.25}


def a_draft(light: int = 2, heavy: int = 0, to_heavy: float = 0.0) -> PlanProposal:
    """Light workers generate 50 a second each, heavy ones 5."""
    allocation = {f"l-{i}": "light" for i in range(light)} | {f"h-{i}": "heavy" for i in range(heavy)}
    levels = {"light": 1 - to_heavy, "heavy": to_heavy}
    return PlanProposal(routes=(Route(levels=levels),), allocation=allocation, batch={}, reason="test")


def admitted(proposal: PlanProposal, **seen: object) -> dict[str, float] | None:
    found = with_admission(proposal, an_observation(**seen), a_catalog()).admission
    return found.shares if found else None


def test_what_the_workers_can_generate_is_let_in_whole() -> None:
    assert admitted(a_draft(), demand_rps=99.0) is None
    assert admitted(a_draft(), demand_rps=0.0) is None


def test_what_is_escalated_to_a_level_takes_its_time_from_requests_that_go_there_first() -> None:
    def sustained(threshold: float, to_heavy: float = 0.5) -> float:
        cascades = (a_cascade(threshold=threshold),)
        draft = dataclasses.replace(a_draft(light=1, heavy=10, to_heavy=to_heavy), cascades=cascades)
        return sustainable_rps(draft, an_observation(demand_rps=100.0), a_catalog())

    assert sustained(0.0) == pytest.approx(100), "50 on light, which carries 50, and 50 on heavy's ten"
    assert sustained(0.5) == pytest.approx(100 * (50 + 50 * 50 / 75) / 100), "25 drafts a second come to heavy, too"
    assert sustained(1.0) == pytest.approx(75), "of heavy's 50 a second half are refined drafts"
    assert sustained(1.0, to_heavy=0.0) == pytest.approx(50), "drafts alone turn nobody away"


def test_beyond_it_the_lowest_tier_is_shed_first_and_the_reason_says_why_and_when_to_come_back() -> None:
    seen = an_observation(demand_rps=125.0, tiers=MIXED)  # of 100: a fifth is too much
    proposal = with_admission(a_draft(), seen, a_catalog())
    reported = proposal.admission
    assert reported
    assert reported.shares == {"interactive": 1.0, "standard": 1.0, "batch": pytest.approx(0.2)}
    assert reported.reason == (
        "shed: demand 125/s, capacity 100/s, so 20% of batch requests are admitted; send again in 7 s"
    )
    assert reported.retry_after_ms == 7000
    assert not proposal.is_feasible


def test_interactive_requests_are_the_last_to_go() -> None:
    assert admitted(a_draft(), demand_rps=200.0, tiers=MIXED) == {"interactive": 1.0, "standard": 0.5, "batch": 0.0}
    assert admitted(a_draft(), demand_rps=800.0, tiers=MIXED) == {"interactive": 0.5, "standard": 0.0, "batch": 0.0}


def test_where_no_tier_was_seen_all_count_as_ordinary() -> None:
    assert admitted(a_draft(), demand_rps=200.0) == {"interactive": 1.0, "standard": 0.5, "batch": 0.0}


def test_only_a_demand_that_is_seen_is_shed_for() -> None:
    assert admitted(a_draft(), demand_rps=90.0, forecast_rps=300.0) is None
    assert admitted(a_draft(), demand_rps=300.0, forecast_rps=90.0) is None


def test_without_a_worker_nothing_is_shed_as_one_may_come() -> None:
    assert admitted(a_draft(light=0), demand_rps=1e4) is None


def test_work_that_waits_too_long_takes_its_part_of_the_workers_first() -> None:
    waiting = tuple(a_worker(f"l-{i}", remaining_ms=8500.0) for i in range(2))
    shares = admitted(a_draft(), demand_rps=200.0, slo_ms=5000.0, workers=waiting)
    assert shares
    assert shares["standard"] == pytest.approx(0.5 * (1 - (8.5 - 2.5) / 30))
    lost = tuple(a_worker(f"l-{i}", remaining_ms=1e9) for i in range(2))
    assert admitted(a_draft(), demand_rps=200.0, workers=lost) == {"interactive": 1.0, "standard": 0.25, "batch": 0.0}


def test_a_dear_level_that_is_full_hands_over_to_a_cheaper_one_before_anything_is_shed() -> None:
    half = a_draft(light=1, heavy=1, to_heavy=0.5)  # 5 a second stay on heavy, the rest fits light
    assert sustainable_rps(half, an_observation(), a_catalog()) == pytest.approx(55)


def test_a_cheap_level_cannot_hand_over_to_a_dearer_one() -> None:
    assert sustainable_rps(a_draft(light=1, heavy=20), an_observation(), a_catalog()) == pytest.approx(50)


def test_what_is_sent_where_nobody_is_waits_or_goes_lower() -> None:
    assert sustainable_rps(a_draft(light=1, to_heavy=0.5), an_observation(), a_catalog()) == pytest.approx(50)
    assert sustainable_rps(a_draft(light=0, heavy=1, to_heavy=0.5), an_observation(), a_catalog()) == pytest.approx(10)


def test_escalations_give_way_so_that_nothing_is_shed_for_them() -> None:
    cascade = dataclasses.replace(a_draft(light=1, heavy=1), cascades=(a_cascade(threshold=1.0),))
    assert sustainable_rps(cascade, an_observation(), a_catalog()) == pytest.approx(50)


@given(
    admitted=st.floats(0, 1), parts=st.lists(st.floats(0.01, 1), min_size=3, max_size=3), known=st.integers(1, 3)
)  # fmt: skip
def test_as_many_are_let_in_as_can_be_generated_and_never_a_lower_tier_before_a_higher(
    admitted: float, parts: list[float], known: int
) -> None:
    total = sum(parts[:known])
    tiers = dict(zip(TIERS, [part / total for part in parts[:known]], strict=False))
    shares = shares_by_tier(admitted, tiers)
    let_in = sum(tiers[tier] * shares[tier] for tier in tiers)
    assert admitted - 1e-9 <= let_in <= admitted + 0.01
    in_order = [shares[tier] for tier in TIERS]
    assert in_order == sorted(in_order, reverse=True)
    assert sum(0 < share < 1 for share in in_order) <= 1


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_sheds_by_the_same_rule_and_its_plan_is_whole(name: str) -> None:
    seen, catalog = an_observation(2, demand_rps=1000.0, slo_ms=1000.0, tiers=MIXED), a_catalog()
    proposal = with_admission(named(name)(seen, catalog, {}, {}), seen, catalog)
    assert proposal.admission
    assert proposal.admission.shares["batch"] == 0
    assert not proposal.is_feasible
    check(publish(proposal, None, name, NOW_MS), catalog)


def test_the_router_turns_away_what_the_plan_sheds_and_says_so_before_anything_else() -> None:
    shed = Admission(shares={"standard": 0.0}, reason="shed: too much", retry_after_ms=4000)
    idle = FixedLoads({"light": 0.0, "heavy": 0.0})

    def decided(tier: str) -> Placement | Rejection | Ignored:
        request = a_classified(a_request(tier=tier, quality="high"))
        return RoutingLogic(a_catalog(), NO_LIMITS).route(request, a_plan(admission=shed), idle, NOW_MS)

    assert decided("standard") == Rejection(Status.REJECTED, SHED, "shed: too much", 4000)
    assert isinstance(decided("interactive"), Placement)


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0, 1))
def test_a_request_read_again_is_decided_alike_and_a_higher_share_never_loses_one(n: int, a: float, b: float) -> None:
    low, high = (Admission(shares={"standard": s}, reason="", retry_after_ms=1) for s in sorted((a, b)))
    first = is_admitted(low, f"r-{n}", "standard")
    assert first == is_admitted(low, f"r-{n}", "standard")
    assert not first or is_admitted(high, f"r-{n}", "standard")


def test_the_share_let_in_is_the_share_asked_for() -> None:
    third = Admission(shares={"standard": 0.3}, reason="", retry_after_ms=1)
    assert sum(is_admitted(third, f"r-{n}", "standard") for n in range(5000)) / 5000 == pytest.approx(0.3, abs=0.02)
    assert is_admitted(third, "r-1", "batch"), "a tier that the plan does not name is let in"
    assert is_admitted(None, "r-1", "batch")


def test_a_plan_is_written_anew_for_other_shares_not_for_other_words() -> None:
    proposal = dataclasses.replace(a_draft(), admission=Admission(shares={"batch": 0.5}, reason="a", retry_after_ms=1))
    plan = publish(proposal, None, "test", NOW_MS)
    said = dataclasses.replace(proposal, admission=Admission(shares={"batch": 0.5}, reason="b", retry_after_ms=2))
    less = dataclasses.replace(proposal, admission=Admission(shares={"batch": 0.4}, reason="a", retry_after_ms=1))
    assert decide_alike(publish(said, None, "test", NOW_MS), plan)
    assert not decide_alike(publish(less, None, "test", NOW_MS), plan)
    assert not decide_alike(publish(dataclasses.replace(proposal, admission=None), None, "test", NOW_MS), plan)


@pytest.mark.parametrize(
    ("shares", "reported"), [({"vip": 0.5}, "unknown tier 'vip'"), ({"batch": math.nan}, r"in \[0, 1\]: got nan")]
)
def test_a_plan_that_sheds_what_is_no_tier_or_no_share_is_refused(shares: dict[str, float], reported: str) -> None:
    wrong = Admission(shares=shares, reason="", retry_after_ms=1)
    with pytest.raises(InvalidPlan, match=reported):
        check(a_plan(admission=wrong), a_catalog())
