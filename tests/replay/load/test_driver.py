from collections.abc import Collection
from concurrent.futures import Future

import pytest

from replay.load.driver import STUCK_MS, Driver, Due, audit, drive, schedule
from replay.traces.trace import Row
from schemas.messages import GenerateRequest
from schemas.record import Delivered
from streams.kafka.producers.writing import DeliveryFailed
from tests.replay.runs import a_result


class World:
    """A clock, and a broker that takes everything but what it is told to refuse or never to answer."""

    def __init__(self, refused: Collection[str] = (), unanswered: Collection[str] = ()) -> None:
        self.now_ms = 1000.0
        self.sent: list[tuple[float, GenerateRequest]] = []
        self._refused, self._unanswered = refused, unanswered

    def submit(self, request: GenerateRequest) -> Future[Delivered]:
        self.sent.append((self.now_ms, request))
        future: Future[Delivered] = Future()
        if request.request_id in self._refused:
            future.set_exception(DeliveryFailed("no"))
        elif request.request_id not in self._unanswered:
            future.set_result(Delivered(partition=0, offset=0))
        return future

    def sleep(self, seconds: float) -> None:
        self.now_ms += seconds * 1000


def a_driver(world: World, arrivals: list[float], before: Collection[str] = ()) -> Driver:
    return Driver(schedule("run", ["one", "two"], arrivals, 0), world.submit, lambda: world.now_ms, before)


def test_prompts_go_in_turn_at_the_pace_of_the_trace() -> None:
    world = World()
    driver = a_driver(world, [0, 100, 250])
    drive_until_sent(driver, world)
    assert [(at, request.prompt) for at, request in world.sent] == [(1000, "one"), (1100, "two"), (1250, "one")]
    assert driver.lateness_ms == [0, 0, 0]


def drive_until_sent(driver: Driver, world: World) -> None:
    while (wait_ms := driver.publish_due()) is not None:
        world.now_ms += wait_ms


def test_a_late_driver_says_how_late_it_was() -> None:
    world = World()
    driver = a_driver(world, [0, 100])
    driver.publish_due()
    world.now_ms += 130
    driver.publish_due()
    assert driver.lateness_ms == [0, 30]


def test_a_deadline_counts_from_the_moment_of_submission() -> None:
    world = World()
    due = [Due(offset_ms=at, request_id=str(at), row=Row(at, "x", slack_ms=500)) for at in (0.0, 100.0)]
    drive_until_sent(Driver(due, world.submit, lambda: world.now_ms), world)
    assert [request.deadline_ms for _, request in world.sent] == [1500, 1600]


def test_what_was_published_before_is_waited_for_and_never_published_again() -> None:
    world = World()
    driver = a_driver(world, [0], before={"earlier"})
    driver.publish_due()
    assert [request.request_id for _, request in world.sent] == ["run-0-0000"]
    assert (driver.total, driver.counts()[:2], driver.is_finished()) == (2, (2, 0), False)
    for name in ("earlier", "run-0-0000"):
        driver.on_result(a_result(request_id=name))
    assert driver.is_finished()


def test_the_same_seed_gives_the_same_ids_and_noise_and_another_does_not() -> None:
    first, again, other = (schedule("run", ["x"], [0, 1], seed) for seed in (7, 7, 8))
    assert first == again
    assert not {(due.request_id, due.row.seed) for due in first} & {(due.request_id, due.row.seed) for due in other}


def test_a_run_ends_when_every_request_has_a_result() -> None:
    world = World()
    driver = a_driver(world, [0, 10])
    ticks: list[float] = []

    def on_tick() -> None:
        ticks.append(world.now_ms)
        if len(ticks) > 5:
            for _, request in world.sent:
                driver.on_result(a_result(request_id=request.request_id))

    assert drive(driver, on_tick, world.sleep)
    assert driver.is_finished()
    assert driver.counts()[:2] == (2, 2)


def test_a_run_without_progress_is_given_up_after_two_minutes_of_silence() -> None:
    world = World()
    assert not drive(a_driver(world, [0]), lambda: None, world.sleep)
    assert STUCK_MS < world.now_ms - 1000 < STUCK_MS + 1000


def test_a_long_pause_of_the_trace_is_not_a_lack_of_progress() -> None:
    world = World()
    driver = a_driver(world, [0, 3 * STUCK_MS])
    driver.publish_due()
    world.now_ms += 2 * STUCK_MS
    assert not driver.is_stuck()


def test_results_of_other_peoples_requests_do_not_count() -> None:
    world = World()
    driver = a_driver(world, [0])
    driver.publish_due()
    driver.on_result(a_result(request_id="someone-elses"))
    assert driver.counts()[1] == 0


def test_what_the_broker_did_not_take_was_not_accepted() -> None:
    world = World(refused={"run-0-0001"})
    driver = a_driver(world, [0, 0])
    driver.publish_due()
    assert driver.accepted() == ["run-0-0000"]


def test_what_the_broker_never_answered_was_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.load.driver.DELIVERY_S", 0.01)
    driver = a_driver(World(unanswered={"run-0-0000"}), [0, 0])
    driver.publish_due()
    assert driver.accepted() == ["run-0-0001"]


def test_an_audit_counts_the_lost_and_the_doubled_and_ignores_strangers() -> None:
    results = [a_result(request_id=name) for name in ("b", "a", "b", "b", "stranger")]
    audited = audit(["a", "b", "c"], results)
    assert [result.request_id for result in audited.results] == ["a", "b"]
    assert audited.lost == ("c",)
    assert audited.duplicates == 2


def test_an_empty_schedule_is_finished_at_once() -> None:
    world = World()
    due: list[Due] = []
    assert drive(Driver(due, world.submit, lambda: world.now_ms), lambda: None, world.sleep)
