"""Simulated heartbeats: what they say reaches every view, and who says nothing new is still alive."""

from planner.observation.run_times import MIN_CALLS
from planner.serving.dispatch.worker import WorkerLogic
from replay.simulation.event_queue import EventQueue
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.routing.load_view import SimulatedLoadView
from replay.simulation.roles.routing.sender import FleetLoads, WaitingTopics
from replay.simulation.roles.workers.group import Group, Member
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from tests.builders import a_catalog, a_plan

TIMING = Timing()


class CountedView(SimulatedLoadView):
    """A view that counts the heartbeats which it is given whole."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0

    def update_from_heartbeat(self, *parts: object) -> None:  # type: ignore[override]
        self.given += 1
        super().update_from_heartbeat(*parts)  # type: ignore[arg-type]


class OneWorker:
    """A worker that serves `light` and has nothing to do, its heartbeats, and a sender that reads them."""

    def __init__(self, partitions: int = 1) -> None:
        self.events = EventQueue()
        catalog = a_catalog()
        times = CallTimes(catalog)
        self.beats = Heartbeats(self.events, TIMING, times)
        plan_state = PlanState(catalog)
        plan_state.obey(a_plan(allocation={}))
        self.loads = FleetLoads(self.events, plan_state, self.beats, TIMING, times, WaitingTopics())
        self.loads.view = self.view = CountedView()
        self.group = self.beats.groups["light"] = Group(partitions)
        self.worker, member = Worker("w-1", 0.0), Member("w-1")
        self.worker.variant, self.worker.state, self.worker.member = "light", "ready", member
        self.worker.logic = WorkerLogic(catalog.level("light"))
        self.group.join(member)
        self.group.settle([member])
        self.beats.start(self.worker)

    def ids(self, at_ms: float) -> list[str]:
        self.events.advance(at_ms)
        return [worker.worker_id for worker in self.loads.pool("light").workers]


def test_a_job_on_its_way_to_a_worker_is_work_before_it_as_on_a_topic_whose_end_it_is() -> None:
    one = OneWorker()
    one.ids(1000.0)
    one.loads.view.on_sent("light", 0, one.group.ends[0], 20.0, one.events.now_ms)
    one.group.written(0)
    one.beats.now(one.worker)
    assert one.loads.wait_ms("light") == 20.0


def test_a_worker_with_nothing_new_to_say_is_taken_for_alive_for_as_long_as_it_lives() -> None:
    one = OneWorker()
    assert [one.ids(1000.0 * second) for second in range(1, 20)] == [["w-1"]] * 19


def test_a_worker_that_has_died_is_silent_after_its_last_heartbeat_though_that_said_nothing_new() -> None:
    one = OneWorker()
    one.ids(10_000.0)
    one.worker.is_up, last_ms = False, one.worker.beaten_ms
    assert one.ids(last_ms + TIMING.silent_ms) == ["w-1"]
    assert one.ids(last_ms + TIMING.silent_ms + 1) == []


def test_the_view_is_given_only_heartbeats_that_say_something_new() -> None:
    one = OneWorker()
    one.ids(5000.0)
    before = one.view.given
    one.ids(10_000.0)
    assert one.view.given == before
    one.group.written(0)  # the next one says that the job is behind its end offset
    one.ids(11_000.0)
    assert one.view.given == before + 1


def test_a_view_and_the_planner_learn_how_slow_a_worker_is_from_its_next_heartbeat() -> None:
    one = OneWorker()
    one.ids(1000.0)
    assert one.worker.logic is not None
    assert one.loads.slowness("light") == 1.0
    for _ in range(MIN_CALLS):
        one.worker.logic.on_generated(24.0, 20.0)
    one.ids(3000.0)
    assert one.loads.slowness("light") == 1.2
    assert one.beats.heartbeats()["w-1"].heartbeat.slowness == 1.2
    assert one.loads.slowness("heavy") == 1.0, "nobody serves it"


def test_a_sign_of_life_of_a_worker_that_nobody_knows_adds_none() -> None:
    view = SimulatedLoadView()
    view.on_sign_of_life("w-1", 0.0)
    assert view.loads("light", 0.0, TIMING.silent_ms) == []


def test_a_worker_that_joins_keeps_its_partitions_though_an_older_beat_that_claims_them_is_taken_in_later() -> None:
    one = OneWorker(partitions=2)
    assert one.ids(1000.0) == ["w-1"]
    one.group.written(0)
    one.events.advance(2000.0)  # w-1 has told that both are its own, and nobody asked since
    joining, member = Worker("w-2", 2000.0), Member("w-2")
    joining.variant, joining.state, joining.member = "light", "ready", member
    joining.logic = one.worker.logic
    one.group.join(member)
    one.group.settle(one.group.members)
    one.beats.start(joining)
    assert one.ids(2001.0) == ["w-1", "w-2"]
    assert one.ids(20_000.0) == ["w-1", "w-2"], "w-2 says nothing new in all that time"
