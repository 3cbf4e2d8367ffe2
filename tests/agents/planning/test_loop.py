"""The planner's loop, tick by tick: when it plans anew, and that a failing policy changes nothing."""

import dataclasses
import threading
from typing import ClassVar

import pytest

from agents import planning
from agents.planning import PlannerLoop
from schemas.errors import PochadeError
from schemas.messages import Pin, Plan
from schemas.topics import PLAN, PLAN_KEY
from streams.memory import MemoryRecordProducer
from streams.settings import Settings, load
from tests.agents.stubs import StubFleet, StubPlans, a_record, read
from tests.builders import NOW_MS, a_catalog, a_classified, a_heartbeat

PERIOD_MS = 5000


class Office:
    """A planner on stubs; `plans` are those it has written."""

    def __init__(self, policy: str = "random-split") -> None:
        self.producer, self.fleet, self.view = MemoryRecordProducer(), StubFleet(), StubPlans()
        settings: Settings = load({"planner": {"policy": policy, "period_ms": PERIOD_MS}})
        self.loop = PlannerLoop(settings, a_catalog(), self.producer, self.view, self.fleet)

    def hear(self, worker_id: str, at_ms: int = NOW_MS, **changes: object) -> "Office":
        self.fleet.hear(a_heartbeat(worker_id=worker_id, **changes), at_ms)
        return self

    @property
    def plans(self) -> list[Plan]:
        return [read(record, Plan) for record in self.producer.topics.get(PLAN, [])]


@pytest.fixture
def office() -> Office:
    return Office().hear("w-1").hear("w-2")


def test_the_first_tick_publishes_a_plan_for_the_workers_that_are_there(office: Office) -> None:
    office.loop.tick(NOW_MS)
    (plan,) = office.plans
    assert (plan.version, plan.policy, plan.created_ms) == (1, "random-split", NOW_MS)
    assert plan.allocation.keys() == {"w-1", "w-2"}
    assert office.producer.topics[PLAN][0].key == PLAN_KEY.encode()


def test_a_plan_that_would_say_the_same_is_not_published_again(office: Office) -> None:
    for tick in range(4):
        office.loop.tick(NOW_MS + tick * 700)
    office.hear("w-1", NOW_MS + PERIOD_MS).hear("w-2", NOW_MS + PERIOD_MS).loop.tick(NOW_MS + PERIOD_MS)
    assert len(office.plans) == 1


def test_a_worker_that_joins_is_planned_with_at_the_next_tick(office: Office) -> None:
    office.loop.tick(NOW_MS)
    office.hear("w-3", NOW_MS + 200, variant="").loop.tick(NOW_MS + 200)
    assert [plan.allocation.keys() for plan in office.plans[1:]] == [{"w-1", "w-2", "w-3"}]


@pytest.mark.parametrize("how", ["silent", "stopped", "failed"])
def test_a_worker_that_is_lost_is_planned_without_at_the_next_tick(office: Office, how: str) -> None:
    office.loop.tick(NOW_MS)
    later = NOW_MS + 3100  # worker_silent_ms is 3000
    office.hear("w-1", later)
    if how != "silent":
        office.hear("w-2", later, state=how)
    office.loop.tick(later)
    assert [plan.allocation.keys() for plan in office.plans[1:]] == [{"w-1"}]


def test_a_pin_is_obeyed_at_the_next_tick_and_its_end_too(office: Office) -> None:
    office.loop.tick(NOW_MS)
    office.view.pin = Pin(policy="clipper-heavy")
    office.loop.tick(NOW_MS + 200)
    office.view.pin = None
    office.loop.tick(NOW_MS + 400)
    assert [plan.policy for plan in office.plans] == ["random-split", "clipper-heavy", "random-split"]
    assert [plan.version for plan in office.plans] == [1, 2, 3]


def test_the_parameters_of_a_pin_are_used(office: Office) -> None:
    office.view.pin = Pin(policy="random-split", parameters={"heavy_share": 1.0})
    office.loop.tick(NOW_MS)
    assert office.plans[0].routes[0].levels["heavy"] == 1.0


@pytest.mark.parametrize("failing", ["raises", "contradicts the catalog"])
def test_a_policy_that_fails_leaves_the_plan_in_force_and_is_tried_again(
    office: Office, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    office.loop.tick(NOW_MS)
    real = planning.named

    def broken(name: str):  # type: ignore[no-untyped-def]
        if failing == "raises":
            raise ZeroDivisionError
        return lambda *arguments: dataclasses.replace(real(name)(*arguments), batch={"lihgt": 1})

    monkeypatch.setattr(planning, "named", broken)
    office.hear("w-3", NOW_MS + 200).loop.tick(NOW_MS + 200)
    assert len(office.plans) == 1
    assert office.view.plan == office.plans[0]
    monkeypatch.setattr(planning, "named", real)
    for worker in ("w-1", "w-2", "w-3"):
        office.hear(worker, NOW_MS + 200 + PERIOD_MS)
    office.loop.tick(NOW_MS + 200 + PERIOD_MS)
    assert len(office.plans) == 2


def test_a_version_is_written_once_even_before_the_view_has_read_it(office: Office) -> None:
    office.loop.tick(NOW_MS)
    office.hear("w-3", NOW_MS + 1).loop.tick(NOW_MS + 1)
    assert [plan.version for plan in office.plans] == [1, 2]


def test_demand_is_the_rate_at_which_prompts_arrived(office: Office) -> None:
    for n in range(60):
        office.loop._on_classified(a_record(a_classified(received_ms=NOW_MS - n)))
    office.loop._on_classified(a_record(a_classified(received_ms=NOW_MS - 31_000)))
    office.loop.tick(NOW_MS)
    expected = office.plans[0].expected
    assert expected is not None
    assert expected.demand_rps == pytest.approx(2.0)  # 60 in 30 s


class OnceFollower:
    """A follower that starts once, as a thread does."""

    opened: ClassVar[list["OnceFollower"]] = []

    def __init__(self, *_: object, **__: object) -> None:
        self.is_started = self.is_closed = False
        OnceFollower.opened.append(self)

    def start(self) -> "OnceFollower":
        assert not self.is_started
        self.is_started = True
        return self

    def wait_caught_up(self, timeout_s: float) -> None:
        if len(OnceFollower.opened) == 1:
            raise PochadeError(f"no broker within {timeout_s} s")

    def close(self) -> None:
        self.is_closed = True


def test_a_planner_can_run_again_after_it_failed(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "Follower", OnceFollower)
    monkeypatch.setattr(OnceFollower, "opened", [])
    stopping = threading.Event()
    with pytest.raises(PochadeError):
        office.loop.run(stopping)

    def tick(_: int) -> None:
        stopping.set()

    monkeypatch.setattr(office.loop, "tick", tick)
    office.loop.run(stopping)
    assert [follower.is_closed for follower in OnceFollower.opened] == [True, True]
