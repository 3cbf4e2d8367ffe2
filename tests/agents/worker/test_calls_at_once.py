"""An engine that allows several calls at once: they overlap, and each ends as a call alone does."""

import contextlib
import dataclasses
import io
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from PIL import Image

from agents.engines import Generated, GenerationTask, OpenedEngine
from agents.worker import role as module
from agents.worker.jobs import Taken
from planner.catalog.options import ResolvedOptions
from planner.serving.dispatch.worker import WorkerLogic
from planner.serving.generating.effects import Answer, Called
from schemas.ids import seed_of
from schemas.messages import GenerateJob, ImageGenerated
from schemas.record import Outgoing
from schemas.topics import IMAGES
from streams.processes.watchdog import Watchdog
from streams.store.port import StoreUnavailable
from tests.agents.stubs import StubEngine, a_record, read, topics_of
from tests.agents.worker.driving import a_driver
from tests.agents.worker.test_role import Shop
from tests.builders import a_catalog, a_classified, a_job, a_request, a_variant
from tests.memory_store import MemoryImageStore
from tests.patience import PATIENCE_S

CALLS = 3
Before = Callable[[str, Callable[[], bool]], None]


class SlowEngine(StubEngine):
    """Allows three calls at once; each waits for what a test says of its request before it generates."""

    calls_at_once = CALLS

    def __init__(self, before: Before) -> None:
        super().__init__()
        self._before = before
        self.running = 0

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: Callable[[], bool]
    ) -> Generated | None:
        self.running += 1
        try:
            self._before(tasks[0].request_id, should_stop)
            return super().generate(tasks, how, should_stop)
        finally:
            self.running -= 1


def together() -> Before:
    """Lets no call go on before three are under way."""
    barrier = threading.Barrier(CALLS)
    return lambda _id, _should_stop: barrier.wait(PATIENCE_S) and None


def until(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S)


class Desk:
    """A driver of such an engine, what it wrote, and who asked its machine."""

    def __init__(self, before: Before, store: MemoryImageStore | None = None, **more: Any) -> None:
        self.engine, self.store, self.ended = SlowEngine(before), store or MemoryImageStore(), set[str]()
        self.driver = a_driver("w-9", self.engine, a_variant(), self.store, self.ended, **more)
        self.written: list[Outgoing] = []
        self.owners = set[int]()
        machine, on = self.driver.logic, self.driver.logic.on

        def noted(answer: Answer[Any], now_ms: float) -> Any:
            self.owners.add(threading.get_ident())
            return on(answer, now_ms)

        machine.on = noted  # type: ignore[method-assign]

    def serve(self, *names: str, write: Callable[[Outgoing], None] | None = None, batch: int = 1) -> None:
        jobs = [a_job(a_classified(a_request(request_id=name)), job_id=f"j-{name}") for name in names]
        self.driver.begin([Taken(a_record(job), 1) for job in jobs], batch)
        self.driver.run(write or self.written.append)

    def images(self) -> list[str]:
        made = [read(record, ImageGenerated) for record in self.written if record.topic == IMAGES]
        return [each.job.classified.request.request_id for each in made]


@pytest.fixture
def desk() -> Iterator[Callable[..., Desk]]:
    with contextlib.ExitStack() as stack:

        def opened(*given: Any, **more: Any) -> Desk:
            found = Desk(*given, **more)
            stack.callback(found.driver.close)
            return found

        yield opened


Desks = Callable[..., Desk]


def test_calls_overlap_and_one_thread_owns_the_machine(desk: Desks) -> None:
    """Else the barrier breaks: three calls are under way before the first goes on, and again for the next three."""
    found = desk(together())
    names = [f"r-{number}" for number in range(2 * CALLS)]
    found.serve(*names)
    assert sorted(found.images()) == names
    assert topics_of(found.written) == [IMAGES] * len(names)
    assert found.owners == {threading.get_ident()}


def test_no_more_calls_overlap_than_the_engine_allows_and_an_image_is_its_own_request_s(desk: Desks) -> None:
    running = list[int]()
    found = desk(lambda _id, _should_stop: running.append(found.engine.running))
    found.serve(*(f"r-{number}" for number in range(20)))
    assert max(running) <= CALLS
    for record in found.written:
        made = read(record, ImageGenerated)
        with Image.open(io.BytesIO(found.store.get(made.image.uri))) as picture:
            red = seed_of(made.job.classified.request.request_id) % 256
            assert picture.getpixel((0, 0)) == (red, 0, 0)


def test_each_is_answered_as_it_ends_and_waits_for_no_other(desk: Desks) -> None:
    others = threading.Event()
    found = desk(lambda name, _should_stop: until(others) if name == "first" else None)

    def write(record: Outgoing) -> None:
        found.written.append(record)
        if len(found.written) == CALLS:
            others.set()

    found.serve("first", "second", "third", "fourth", write=write)
    assert found.images()[-1] == "first"


def test_a_call_that_fails_is_tried_again_alone_and_only_its_job_counts_an_attempt(desk: Desks) -> None:
    def before(name: str, _should_stop: object) -> None:
        if name == "bad":
            raise ValueError("no such colour")

    found = desk(before)
    found.serve("a", "bad", "b", "c")
    (again,) = [read(record, GenerateJob) for record in found.written if record.topic != IMAGES]
    assert (again.classified.request.request_id, again.attempt) == ("bad", 2)
    assert sorted(found.images()) == ["a", "b", "c"]


def test_a_call_whose_requests_have_ended_stops_and_the_others_go_on(desk: Desks) -> None:
    begun = threading.Event()

    def before(name: str, should_stop: Callable[[], bool]) -> None:
        if name == "ended":
            found.ended.add("ended")
            assert should_stop()
            begun.set()
        else:
            until(begun)
            assert not should_stop()

    found = desk(before)
    found.serve("a", "ended", "b")
    assert sorted(found.images()) == ["a", "b"]


def test_a_client_s_trouble_stops_the_calls_and_leaves_once_they_have_ended(desk: Desks) -> None:
    stopped = list[bool]()
    begun = threading.Barrier(2)

    def before(name: str, should_stop: Callable[[], bool]) -> None:
        begun.wait(PATIENCE_S)
        if name == "long":
            ticks = threading.Event()
            while not should_stop():
                ticks.wait(0.001)
            stopped.append(True)

    def write(_record: Outgoing) -> None:
        raise RuntimeError("the producer is closed")

    found = desk(before)
    with pytest.raises(RuntimeError, match="producer is closed"):
        found.serve("short", "long", write=write)
    assert (stopped, found.engine.running) == ([True], 0)


def test_a_store_that_is_away_for_one_holds_up_no_other_and_no_watchdog_while_a_call_runs(desk: Desks) -> None:
    """Only once no call runs does the window wait as one that no job is to blame for."""
    is_back, waited = threading.Event(), list[int]()

    class Away(MemoryImageStore):
        def put(self, name: str, data: bytes, extension: str = "png") -> str:
            if name == "j-early" and not is_back.is_set():
                raise StoreUnavailable("away")
            return super().put(name, data, extension)

    @contextlib.contextmanager
    def waits() -> Iterator[None]:
        waited.append(found.engine.running)
        is_back.set()
        yield

    has_waited = threading.Event()

    def before(name: str, _should_stop: object) -> None:
        if name == "late":
            until(has_waited)

    found = desk(before, Away(), waits=waits)
    begin_wait = found.driver._open.wait  # type: ignore[union-attr]

    def wait(seconds: float, answer: Any) -> None:
        begin_wait(seconds, answer)
        has_waited.set()

    found.driver._open.wait = wait  # type: ignore[union-attr, method-assign]
    found.serve("early", "late")
    assert found.images() == ["late", "early"]
    assert set(waited) == {0}


def test_the_next_call_begins_before_the_images_of_the_last_are_stored(desk: Desks) -> None:
    begun = threading.Event()

    class Slow(MemoryImageStore):
        def put(self, name: str, data: bytes, extension: str = "png") -> str:
            until(begun)
            return super().put(name, data, extension)

    def before(name: str, _should_stop: object) -> None:
        if name == "d":
            begun.set()
        elif name != "a":
            until(begun)

    found = desk(before, Slow())
    found.serve("a", "b", "c", "d")
    assert sorted(found.images()) == ["a", "b", "c", "d"]


def test_a_worker_reckons_with_calls_that_slow_each_other_down() -> None:
    """By the times of as many images in a call: three at once take 300 ms, a third of it each."""
    variant = a_variant(latency_ms={1: 200.0, 3: 300.0})
    alone, beside = WorkerLogic(variant), WorkerLogic(variant, CALLS)
    assert (alone.max_jobs(1), beside.max_jobs(1)) == (1, CALLS)
    assert (alone.waiting_ms(CALLS), beside.waiting_ms(CALLS)) == (600.0, 300.0)
    for jobs, in_hand_ms in (("a", 200.0), ("ab", 250.0), ("abc", 300.0), ("abcdef", 600.0)):
        assert beside.begin(list(jobs), 4).batches == [[job] for job in jobs], "no job waits for another of its call"
        assert beside.in_hand_ms == in_hand_ms


def test_a_job_beside_others_takes_longer_and_its_deadline_is_held_against_that() -> None:
    beside = WorkerLogic(a_variant(latency_ms={1: 200.0, 3: 300.0}), CALLS)
    assert [beside.is_in_time(260.0, 200.0, 0.0, 0.0, others) for others in (0, 1, 2, 9)] == [True, True, False, False]


def test_calls_that_take_as_long_as_so_many_are_to_take_are_not_slow(desk: Desks) -> None:
    variant = a_variant(latency_ms={1: 10.0, CALLS: 40.0})
    found = desk(together())
    found.driver.logic.worker.__init__(variant, CALLS)  # type: ignore[misc]
    found.driver.logic._work.call_ms = lambda _jobs: 10.0  # type: ignore[method-assign]
    on = found.driver.logic.on

    def of_40_ms(answer: Answer[Any], now_ms: float) -> Any:
        return on(answer._replace(run_ms=40.0) if isinstance(answer, Called) else answer, now_ms)

    found.driver.logic.on = of_40_ms  # type: ignore[method-assign]
    found.serve(*(f"r-{number}" for number in range(3 * CALLS)))
    assert found.driver.worker.slowness == 1.0


def test_an_image_says_beside_how_many_others_it_was_generated(desk: Desks) -> None:
    """So that planners hold its time against the profile's of as many, and an equal share of it is its cost."""
    found = desk(together())
    found.serve("a", "b", "c")
    assert [read(record, ImageGenerated).batch for record in found.written] == [CALLS] * CALLS


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Iterator[Shop]:
    found = Shop(monkeypatch, a_catalog(), tmp_path)
    yield found
    found.close()


@pytest.fixture
def held(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A worker's engine that keeps the call of `a` open until this is set."""
    others = threading.Event()
    engine = SlowEngine(lambda name, _should_stop: until(others) if name == "a" else None)
    monkeypatch.setattr(module, "open_engine", lambda *_given: OpenedEngine(engine))
    shop.plan("heavy")
    yield others
    others.set()


def test_jobs_join_the_window_of_a_long_call_and_what_is_done_is_committed(shop: Shop, held: threading.Event) -> None:
    """Else the next jobs, and their commits, would wait for the longest call of those before."""
    queue = shop.queues["heavy"]
    shop.queue("heavy", "a", "b", "c", "d")
    shop.open().until(lambda: sorted(shop.generated()) == ["b", "c", "d"])
    shop.queue("heavy", "e")
    shop.until(lambda: sorted(shop.generated()) == ["b", "c", "d", "e"])
    assert queue.begun[0] == [0, 1, 2]
    assert queue.begun[-1][0] == 0, "a's call runs, so that its record is the first in flight"
    assert queue.begun[-1][-1] == 4
    assert 1 not in queue.begun[-1], "what is done is in flight no more"
    assert "commit" not in queue.log, "of the only partition, a's record is not done"
    held.set()
    shop.until(lambda: queue.log[-1] == "commit")
    assert shop.worker._me.generated == 5


def test_none_joins_that_may_have_ended_a_worker_and_is_to_be_alone(shop: Shop, held: threading.Event) -> None:
    queue = shop.queues["heavy"]
    queue.is_suspicious = True
    shop.queue("heavy", "a", "b", "c", "d")
    shop.open().until(lambda: sorted(shop.generated()) == ["b", "c"])
    held.set()
    shop.until(lambda: queue.log == ["begin", "commit", "begin", "commit"])
    assert sorted(shop.generated()) == ["a", "b", "c", "d"]


def test_none_joins_a_window_that_is_old(shop: Shop, held: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that hangs is found by the age of its window."""
    monkeypatch.setattr(module, "JOIN_SHARE", 0.0)
    shop.queue("heavy", "a", "b", "c", "d")
    shop.open().until(lambda: sorted(shop.generated()) == ["b", "c"])
    held.set()
    shop.until(lambda: sorted(shop.generated()) == ["a", "b", "c", "d"])
    assert shop.queues["heavy"].begun == [[0, 1, 2], [3]]


def test_none_joins_once_the_plan_wants_the_worker_elsewhere(
    shop: Shop, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.queue("heavy", "a")
    shop.open().until(lambda: shop.worker._me.watchdog.since is not None)
    logic, turns = shop.worker._me.logic, list[bool]()
    assert logic is not None
    turn = logic.turn
    monkeypatch.setattr(logic, "turn", lambda *given: turns.append(True) or turn(*given))
    shop.plan("light", version=2, age_ms=0)
    shop.until(lambda: logic.left_ms is not None)
    turns.clear()
    shop.queue("heavy", "late")
    shop.until(lambda: len(turns) > 1)
    assert shop.queues["heavy"].begun == [[0]]
    held.set()
    shop.until(lambda: "a" in shop.generated())


def test_a_record_that_joins_and_cannot_be_read_is_answered(desk: Desks) -> None:
    job = a_job(a_classified(a_request(request_id="b")), job_id="j-b")
    more = iter([[Taken(dataclasses.replace(a_record(job), value=b"?"), 1), Taken(a_record(job), 1)]])
    joined = threading.Event()
    found = desk(lambda name, _should_stop: until(joined) if name == "a" else joined.set())
    found.driver.begin([Taken(a_record(a_job(a_classified(a_request(request_id="a")), job_id="j-a")), 1)], 1)
    found.driver.run(found.written.append, more=lambda _most: next(more, []))
    assert sorted(found.images()) == ["a", "b"]
    assert len(found.written) == 4, "and an outcome with its dead letter"


def test_one_call_of_several_that_hangs_ends_the_worker(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    bitten, ends = threading.Event(), threading.Event()
    engine = SlowEngine(lambda name, _should_stop: until(ends) if name == "hung" else None)
    monkeypatch.setattr(module, "open_engine", lambda *_given: OpenedEngine(engine))
    shop.worker._me.watchdog = Watchdog(0.05, bite=bitten.set)
    shop.queue("heavy", "hung", "b", "c")
    shop.plan("heavy")
    try:
        shop.open().until(lambda: sorted(shop.generated()) == ["b", "c"])
        until(bitten)
    finally:
        ends.set()
