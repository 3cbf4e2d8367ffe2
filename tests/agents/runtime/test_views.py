"""The views take in records of their topics; nothing here reaches a broker."""

import dataclasses
import math

import pytest

from agents.runtime.request_views import InFlightView
from agents.runtime.views import FORGET_MS, EndedView, FleetView, PlanView
from planner.serving.requests import OPEN_MS
from schemas.errors import InvalidRecord
from schemas.messages import Expected, Pin, ReuseStorage, Route
from schemas.topics import CLASSIFIED, MEMORY_KEY, PIN_KEY, PLAN_KEY, RESULTS
from streams import metrics
from streams.clock import now_ms
from tests.agents.stubs import a_record
from tests.builders import a_catalog, a_heartbeat, a_plan, a_reuse_plan, owned


@pytest.fixture
def plans() -> PlanView:
    return PlanView("test", a_catalog())


@pytest.fixture
def fleet() -> FleetView:
    return FleetView(silent_ms=3000)


def test_versions_not_above_our_own_are_ignored(plans: PlanView) -> None:
    for version, policy in ((2, "first"), (1, "older"), (2, "fenced"), (3, "newer")):
        plans.on_record(a_record(a_plan(version=version, policy=policy), key=PLAN_KEY.encode()))
        assert plans.plan is not None
        assert plans.plan.policy == ("newer" if version == 3 else "first")


def test_a_pin_holds_until_it_is_taken_back(plans: PlanView) -> None:
    for pin, held in ((Pin(policy="a"), "a"), (Pin(policy=""), None), (Pin(policy="b"), "b"), (None, None)):
        plans.on_record(a_record(pin, key=PIN_KEY.encode()))
        assert (plans.pin.policy if plans.pin else None) == held


def test_an_order_to_go_back_to_a_plan_is_a_pin_without_a_policy(plans: PlanView) -> None:
    plans.on_record(a_record(Pin(policy="", plan_version=7), key=PIN_KEY.encode()))
    assert plans.pin is not None
    assert plans.pin.plan_version == 7
    plans.on_record(a_record(Pin(policy=""), key=PIN_KEY.encode()))
    assert plans.pin is None


def test_a_plan_of_our_own_is_in_force_before_it_is_read(plans: PlanView) -> None:
    plans.obey(a_plan(version=5))
    plans.on_record(a_record(a_plan(version=5, policy="another"), key=PLAN_KEY.encode()))
    assert plans.plan == a_plan(version=5)
    assert plans.has_plan.is_set()


def test_requests_are_in_flight_from_their_classification_to_their_result_for_an_hour_at_most() -> None:
    ended = EndedView()
    in_flight = InFlightView(ended)

    def is_classified(name: str, at_ms: int = 0) -> None:
        in_flight.on_record(a_record(topic=CLASSIFIED, key=name.encode(), timestamp_ms=at_ms))

    for name in ("a", "b", "a"):
        is_classified(name)
    ended.on_record(a_record(topic=RESULTS, key=b"a"))
    is_classified("a")  # its record was written again, or is read after its result
    assert ("a" in in_flight, "b" in in_flight) == (False, True)
    is_classified("c", OPEN_MS)
    assert ("b" in in_flight, "c" in in_flight) == (False, True)


def test_another_plan_of_the_same_version_makes_it_disputed_until_a_newer_one(plans: PlanView) -> None:
    for version, policy, is_disputed in ((2, "a", False), (2, "a", False), (2, "b", True), (3, "a", False)):
        plans.on_record(a_record(a_plan(version=version, policy=policy), key=PLAN_KEY.encode()))
        assert plans.is_disputed == is_disputed


def test_what_is_remembered_beside_a_plan_changes_no_decision(plans: PlanView) -> None:
    plan, expected = a_plan(version=2), Expected(demand_rps=9.0, utilization=0.5, heavy_share=0.1)
    plans.obey(plan)
    for noted in (
        a_plan(version=3, memory='{"a": 1}'),
        a_plan(version=2, memory='{"a": 1}', dispatch="pull"),
        a_plan(version=2, memory="no object"),
    ):
        plans.on_record(a_record(noted, key=MEMORY_KEY.encode()))
        assert plans.plan == plan
    newer = a_plan(version=2, memory='{"a": 1}', expected=expected, created_ms=plan.created_ms + 60_000)
    plans.on_record(a_record(newer, key=MEMORY_KEY.encode()))
    assert plans.plan == a_plan(version=2, memory='{"a": 1}', expected=expected)


def refused() -> float:
    return metrics.PLANS_REFUSED.labels("test")._value.get()


def test_a_plan_of_another_catalog_is_reported_and_counted_once_and_the_one_before_holds(
    plans: PlanView, caplog: pytest.LogCaptureFixture
) -> None:
    before = refused()
    of_tomorrow = a_plan(version=2, routes=(Route(levels={"medium": 1.0}),))
    for plan in (a_plan(version=1), of_tomorrow, of_tomorrow, a_plan(version=2)):
        plans.on_record(a_record(plan, key=PLAN_KEY.encode()))
        assert plans.plan == a_plan(version=1)
    assert plans.newest == 2
    assert refused() == before + 1
    (reported,) = caplog.messages
    assert "does not obey plan 2 of 'test': unknown level 'medium'" in reported
    assert reported.endswith("plan 1 holds")
    plans.on_record(a_record(a_plan(version=3), key=PLAN_KEY.encode()))
    assert (plans.plan, plans.newest, plans.refusal) == (a_plan(version=3), 3, "")


def test_who_knows_only_a_plan_of_another_catalog_waits_and_says_so(plans: PlanView) -> None:
    assert plans.not_ready() == "holds no plan yet"
    plans.obey(a_plan(version=4, allocation={"w-1": "medium"}))
    assert plans.plan is None
    assert not plans.has_plan.is_set()
    assert "holds no plan yet: it does not obey plan 4" in plans.not_ready()
    plans.obey(a_plan(version=5))
    assert plans.not_ready() == ""


def test_an_ended_request_is_known_by_its_records_key_alone() -> None:
    view = EndedView()
    view.on_record(a_record(value=b"whatever", key=b"r-7"))
    assert "r-7" in view
    assert "r-8" not in view


def test_the_oldest_ended_requests_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.runtime.views.MAX_ENDED", 4)
    view = EndedView()
    for n in range(5):
        view.on_record(a_record(value=b"", key=b"r-%d" % n))
    assert [f"r-{n}" in view for n in range(5)] == [False, False, True, True, True]


def test_workers_long_unheard_of_leave_the_fleet(fleet: FleetView) -> None:
    for worker, seen_ms in (("old", now_ms() - FORGET_MS - 1), ("new", now_ms())):
        fleet.on_record(a_record(a_heartbeat(worker_id=worker), timestamp_ms=seen_ms))
    assert fleet.heartbeats.keys() == {"new"}


def test_loads_count_own_sends_until_a_heartbeat_has_seen_them(fleet: FleetView) -> None:
    fleet.on_record(a_record(a_heartbeat(partitions=(owned(2),)), timestamp_ms=now_ms()))
    sent = fleet.sent("light", 2, 5000.0, now_ms())
    (load,) = fleet.loads("light", now_ms())
    assert (load.worker_id, load.partition) == ("w-1", 2)
    assert load.remaining_ms > 4000
    fleet.acknowledged(sent, 0)
    fleet.on_record(a_record(a_heartbeat(partitions=(owned(2, end_offset=1),)), timestamp_ms=now_ms()))
    assert fleet.loads("light", now_ms())[0].remaining_ms == 0


def test_a_heartbeat_of_less_than_no_work_is_refused_and_the_one_before_holds(fleet: FleetView) -> None:
    fleet.on_record(a_record(a_heartbeat(), timestamp_ms=now_ms()))
    for partition in (owned(0, remaining_ms=-1), owned(0, end_offset=-1)):
        with pytest.raises(InvalidRecord, match="reports negative work"):
            fleet.on_record(a_record(a_heartbeat(partitions=(partition,)), timestamp_ms=now_ms()))
    for slowness in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidRecord, match="reports a slowness of"):
            fleet.on_record(a_record(a_heartbeat(slowness=slowness), timestamp_ms=now_ms()))
    assert fleet.heartbeats["w-1"].heartbeat == a_heartbeat()


def test_a_variant_is_as_slow_as_its_workers_heartbeats_say_and_as_profiled_where_nobody_serves_it(
    fleet: FleetView,
) -> None:
    fleet.on_record(a_record(a_heartbeat(slowness=1.25), timestamp_ms=now_ms()))
    assert fleet.slowness("light", now_ms()) == 1.25
    assert fleet.slowness("heavy", now_ms()) == 1.0


def test_a_plan_that_only_the_simulator_can_obey_is_not_obeyed(plans: PlanView) -> None:
    plans.obey(a_plan(version=1))
    evicting = a_plan(version=2, reuse=a_reuse_plan(storage=ReuseStorage(eviction="lcbfu")))
    plans.obey(evicting)
    assert plans.plan is not None
    assert plans.plan.version == 1
    assert "no index writer can evict by 'lcbfu'" in plans.refusal
    assert not plans.fits(evicting)


def test_a_second_process_under_a_workers_id_is_logged_and_counted_once(
    fleet: FleetView, caplog: pytest.LogCaptureFixture
) -> None:
    before = metrics.DOUBLED_WORKERS._value.get()
    for started_ms in (1, 2, 1, 2, 1):
        fleet.on_record(dataclasses.replace(a_record(a_heartbeat(started_ms=started_ms)), timestamp_ms=now_ms()))
    assert [each.getMessage() for each in caplog.records] == [
        "two processes send heartbeats as w-1: give each a worker.id of its own"
    ]
    assert metrics.DOUBLED_WORKERS._value.get() == before + 1
