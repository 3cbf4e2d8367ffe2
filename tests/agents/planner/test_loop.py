"""The planner's loop, step by step: when it plans anew, what it publishes, and who of two does."""

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from agents.planner import observe
from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation
from planner.policies import POLICIES
from schemas.errors import PochadeError
from schemas.messages import Pin, Route
from schemas.record import Outgoing
from schemas.topics import PLAN_KEY
from streams import metrics
from streams.codec.headers import FACT
from streams.control.records import Place
from tests.agents.planner.office import PERIOD_MS, Office
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, a_classified, a_plan, a_request, owned


@pytest.fixture
def office() -> Office:
    return Office().receive("w-1").receive("w-2")


def test_the_first_step_publishes_a_plan_for_the_workers_that_are_there(office: Office) -> None:
    assert office.loop.not_ready()
    office.step()
    (plan,) = office.plans
    assert (plan.version, plan.policy, plan.created_ms) == (1, "random-split", NOW_MS)
    assert plan.allocation.keys() == {"w-1", "w-2"}
    assert office.records[0].key == PLAN_KEY.encode()
    assert not office.loop.not_ready()


def test_a_plan_that_would_say_the_same_is_not_published_again(office: Office) -> None:
    for tick in range(4):
        office.step(tick * 700)
    office.receive("w-1", NOW_MS + PERIOD_MS).receive("w-2", NOW_MS + PERIOD_MS).step(PERIOD_MS)
    assert len(office.plans) == 1


def test_a_worker_that_joins_is_planned_with_at_the_next_step(office: Office) -> None:
    office.step().receive("w-3", NOW_MS + 200, variant="").step(200)
    assert [plan.allocation.keys() for plan in office.plans[1:]] == [{"w-1", "w-2", "w-3"}]


@pytest.mark.parametrize("how", ["silent", "stopped", "failed"])
def test_a_worker_that_is_lost_is_planned_without_at_the_next_step(office: Office, how: str) -> None:
    later = 3100  # worker_timeout_ms is 3000
    office.step().receive("w-1", NOW_MS + later)
    if how != "silent":
        office.receive("w-2", NOW_MS + later, state=how)
    office.step(later)
    assert [plan.allocation.keys() for plan in office.plans[1:]] == [{"w-1"}]


def test_a_backlog_that_grew_is_planned_for_before_the_period_is_over(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.step()
    asked: list[int] = []
    monkeypatch.setattr(office.loop, "_plan", lambda request: asked.append(request.now_ms))
    office.receive("w-1", NOW_MS + 1200, partitions=(owned(0, remaining_ms=8000),)).step(1200)
    office.step(1400)
    assert asked == [NOW_MS + 1200]


def test_a_pin_is_obeyed_at_the_next_step_and_its_end_too(office: Office) -> None:
    office.step()
    office.view.pin = Pin(policy="clipper-heavy")
    office.step(200)
    office.view.pin = None
    office.step(400)
    assert [plan.policy for plan in office.plans] == ["random-split", "clipper-heavy", "random-split"]
    assert [plan.version for plan in office.plans] == [1, 2, 3]


def test_the_parameters_of_a_pin_are_used(office: Office) -> None:
    office.view.pin = Pin(policy="random-split", parameters={"heavy_share": 1.0})
    office.step()
    assert office.plans[0].routes[0].levels["heavy"] == 1.0


def test_a_rollback_publishes_what_the_earlier_plan_decided_on_the_workers_of_now(office: Office) -> None:
    office.view.topic = [a_plan(version=n, policy=f"p{n}") for n in range(1, 10)]
    office.view.pin = Pin(policy="", plan_version=4)
    office.receive("w-3").step()
    (plan,) = office.plans
    assert (plan.version, plan.policy) == (10, "p4")
    assert "an operator's order brought plan 4 back; changed because policy p4 plans in place of p9" in plan.reason
    assert (plan.routes, plan.cascades) == (a_plan().routes, a_plan().cascades)
    assert plan.allocation.keys() == {"w-1", "w-2", "w-3"}
    office.hear_all(PERIOD_MS).step(PERIOD_MS)
    assert [each.version for each in office.plans] == [10], "it holds: nothing new is decided"
    office.view.pin = None
    office.step(PERIOD_MS + 200)
    assert office.plans[-1].policy == "random-split"


def test_an_order_to_go_back_to_a_plan_that_never_was_changes_nothing(office: Office) -> None:
    office.view.pin = Pin(policy="", plan_version=77)
    office.step()
    assert [plan.policy for plan in office.plans] == ["random-split"]


def test_a_version_is_written_once_even_before_the_view_has_read_it(office: Office) -> None:
    office.step().receive("w-3", NOW_MS + 1).step(1)
    assert [plan.version for plan in office.plans] == [1, 2]


def test_a_planner_goes_on_from_what_workers_obey_where_the_topic_was_lost(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    office.receive("w-1", plan_version=7).receive("w-2", plan_version=2**62).step()
    assert [plan.version for plan in office.plans] == [8], "roles obey no plan below theirs"
    assert "workers obey plan 7: earlier plans are lost" in caplog.text
    office.receive("w-3", NOW_MS + 1, plan_version=9).step(1)
    assert [plan.version for plan in office.plans] == [8, 9], "the topic holds a plan, and its versions count"


def overruled() -> float:
    return metrics.FOREIGN_PLANS._value.get()


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_plan_that_the_leader_has_not_written_is_overruled_at_its_next_step(
    office: Office, caplog: pytest.LogCaptureFixture, *, is_refused: bool
) -> None:
    before, own = overruled(), office.step().plans[0]
    if is_refused:
        office.view.topic_newest = 2**32
    else:
        office.view.obey(
            a_plan(version=2**32, policy=own.policy, memory='{"forged": 1}', allocation={"ghost": "heavy"})
        )
    office.step(200).step(400)
    again = office.plans[1:]
    assert again == [dataclasses.replace(own, version=2**32 + 1, created_ms=NOW_MS + 200)]
    assert overruled() == before + 1
    assert "no planner has written plan 4294967296" in caplog.text


def test_a_second_plan_of_the_leader_s_version_is_overruled_too(office: Office) -> None:
    office.step()
    office.view.is_disputed = True
    office.step(200)
    assert [plan.version for plan in office.plans] == [1, 2]


def test_an_order_is_answered_by_a_plan_that_may_decide_the_same(office: Office) -> None:
    office.step()
    office.view.place, office.view.pin = Place(8, 7), Pin(policy="random-split")
    office.step(200).hear_all(PERIOD_MS).step(PERIOD_MS)
    assert [plan.version for plan in office.plans] == [1, 2]
    assert place_of(office.records[-1]) == (b"8", b"7")


def place_of(record: Outgoing) -> tuple[bytes, bytes]:
    return record.headers[FACT + "read_to"], record.headers[FACT + "pin_at"]


def test_an_order_that_comes_while_a_policy_runs_is_not_answered_by_its_plan(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(seen: Observation, catalog: Catalog, *more: Any) -> PlanProposal:
        office.view.place, office.view.pin = Place(8, 7), Pin(policy="clipper-light")
        return clipper_heavy(seen, catalog, *more)

    clipper_heavy = POLICIES["clipper-heavy"]
    monkeypatch.setitem(POLICIES, "random-split", interrupted)
    office.step().step(200)
    assert [plan.policy for plan in office.plans] == ["random-split", "clipper-light"]
    assert [place_of(record)[1] for record in office.records] == [b"-1", b"7"]


def test_a_plan_that_overrules_another_answers_no_order(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    office.step()
    monkeypatch.setattr(office.loop, "_plan", lambda _request: None)  # the policy has not ended
    office.view.place, office.view.pin, office.view.is_disputed = Place(8, 7), Pin(policy="clipper-light"), True
    office.step(200)
    assert place_of(office.records[-1]) == (b"7", b"-1"), "a planner that begins reads the order at 7"


def counting(_seen: Observation, _catalog: Catalog, memory: Mapping[str, Any], _parameters: object) -> PlanProposal:
    """A policy that remembers how often it has planned, and decides nothing by it."""
    return PlanProposal(
        routes=(Route(levels={"light": 1.0}),), allocation={}, batch={}, reason="as ever",
        memory={"plans": memory.get("plans", 0) + 1},
    )  # fmt: skip


def test_what_changes_without_decisions_is_written_beside_the_plan_once_a_minute_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(POLICIES, "counting", counting)
    office = Office("counting").receive("w-1")
    for period in range(14):
        office.hear_all(period * PERIOD_MS).step(period * PERIOD_MS)
    assert [plan.memory for plan in office.plans] == ['{"plans": 1}']
    assert [(plan.version, plan.memory) for plan in office.remembered] == [(1, '{"plans": 13}')]
    stopped = threading.Event()
    stopped.set()
    monkeypatch.setattr(observe, "TopicTailer", OnceFollower)
    office.loop.run(stopped)
    assert [plan.memory for plan in office.remembered] == ['{"plans": 13}', '{"plans": 14}']
    assert len(office.plans) == 1


def test_demand_is_the_rate_at_which_prompts_arrived(office: Office) -> None:
    for n in range(60):
        request = a_request(request_id=f"r-{n}")
        office.loop.sources.on_classified(a_record(a_classified(request, received_ms=NOW_MS - n)))
    office.loop.sources.on_classified(a_record(a_classified(received_ms=NOW_MS - 31_000)))
    office.step()
    expected = office.plans[0].expected
    assert expected is not None
    assert expected.demand_rps == pytest.approx(2.0)  # 60 in 30 s


def test_a_clock_that_jumps_back_stands_still_for_a_while_and_then_begins_anew(office: Office) -> None:
    office.hear_all(PERIOD_MS).step(PERIOD_MS)
    office.receive("w-3", NOW_MS).receive("w-2", NOW_MS + 2500).step(0)
    assert office.plans[-1].allocation.keys() == {"w-1", "w-2"}, "w-3 spoke too long ago"
    assert office.plans[-1].created_ms == NOW_MS + PERIOD_MS
    hour = 3_600_000
    office.loop.tick(NOW_MS - hour)
    assert office.loop._logic._planned_ms == NOW_MS - hour, "after a long jump time begins anew"


def test_the_newer_of_two_planners_leads_and_versions_go_on(office: Office) -> None:
    office.step()
    newer = Office(policy="clipper-heavy", board=office.board).receive("w-1").receive("w-2")
    newer.view.topic = office.plans
    newer.step()
    office.view.pin = Pin(policy="clipper-light")
    office.step(700).step(1400)
    assert [(plan.version, plan.policy) for plan in office.plans] == [(1, "random-split"), (2, "clipper-heavy")]
    assert not office.loop.not_ready(), "one that stands by is ready"


def test_a_planner_that_stands_by_leads_when_the_leader_falls_silent(office: Office) -> None:
    office.step()
    newer = Office(board=office.board).receive("w-1").receive("w-2")
    newer.view.topic = office.plans
    newer.step()
    office.view.topic = office.plans
    for after_ms in range(500, 6000, 500):
        office.receive("w-1", NOW_MS + after_ms).receive("w-4", NOW_MS + after_ms).step(after_ms)
    assert [plan.version for plan in office.plans] == [1, 2]
    assert office.plans[-1].allocation.keys() == {"w-1", "w-4"}


class OnceFollower:
    """A follower that starts once, as a thread does."""

    opened: ClassVar[list["OnceFollower"]] = []

    def __init__(self, *_: object, **__: object) -> None:
        self.is_started = self.is_closed = False
        self.is_caught_up = threading.Event()
        OnceFollower.opened.append(self)

    def start(self) -> "OnceFollower":
        assert not self.is_started
        self.is_started = True
        return self

    def wait_caught_up(self, timeout_s: float) -> None:
        if len(OnceFollower.opened) == 1:
            raise PochadeError(f"not within {timeout_s} s")
        self.is_caught_up.set()

    def close(self) -> None:
        self.is_closed = True


def test_a_planner_can_run_again_after_it_failed_and_resigns_in_the_end(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe, "TopicTailer", OnceFollower)
    monkeypatch.setattr(OnceFollower, "opened", [])
    stopping, step = threading.Event(), office.loop.step

    def breaks(*_: int) -> None:
        raise PochadeError("no broker")

    def steps(monotonic_ms: int, now: int) -> None:
        step(monotonic_ms, now)
        assert office.board.beat > 0
        stopping.set()

    monkeypatch.setattr(office.loop, "step", breaks)
    with pytest.raises(PochadeError):
        office.loop.run(stopping)
    monkeypatch.setattr(office.loop, "step", steps)
    office.loop.run(stopping)
    assert [follower.is_closed for follower in OnceFollower.opened] == [True] * 4
    assert office.board.beat == 0


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_plans_live_without_workers_and_with(policy: str) -> None:
    office = Office(policy).step()
    assert [(plan.policy, plan.allocation) for plan in office.plans] == [(policy, {})]
    office.receive("w-1").receive("w-2").step(200)
    assert office.plans[-1].allocation.keys() == {"w-1", "w-2"}
    assert all(plan.reason for plan in office.plans)
