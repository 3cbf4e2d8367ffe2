"""A store or broker that is away for long: a worker waits, and its jobs are not to blame."""

import threading
import time
import types
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from agents.worker import driving
from agents.worker import role as module
from agents.worker.jobs import Taken
from planner.observation.workers import ReceivedHeartbeat
from schemas.record import Delivered, Outgoing
from schemas.topics import IMAGES
from streams.clock import now_ms
from streams.kafka.producers.topic_limits import LIMITS
from streams.kafka.producers.writing import MAX_BYTES, DeliveryFailed, RecordTooLarge
from streams.processes.watchdog import Watchdog
from streams.store.port import StoreUnavailable
from tests.agents.stubs import StubEngine
from tests.agents.worker.test_role import Queue, Shop, catalog, shop  # noqa: F401  fixtures
from tests.builders import a_heartbeat
from tests.memory_kafka import MemoryRecordProducer
from tests.memory_store import MemoryImageStore
from tests.patience import PATIENCE_S

LIMIT_S = 0.1


class ClosedStore(MemoryImageStore):
    """Takes nothing until it is opened; calls `on_refusal` for each refusal."""

    def __init__(self, on_refusal: Callable[[int], None]) -> None:
        super().__init__()
        self._on_refusal, self.refusals = on_refusal, 0
        self.is_open = False

    def put(self, name: str, data: bytes, extension: str = "png") -> str:
        if not self.is_open:
            self.refusals += 1
            self._on_refusal(self.refusals)
            raise StoreUnavailable("no space left")
        return super().put(name, data, extension)


class Counting(Queue):
    """Remembers which jobs were said not to be to blame."""

    def __init__(self) -> None:
        super().__init__()
        self.absolved: list[list[Taken]] = []

    def absolve(self, batch: list[Taken]) -> None:
        self.absolved.append(batch)


class Dogs:
    """A worker's two watchdogs: seen to bite, and end nothing."""

    def __init__(self, shop: Shop, limit_s: float = PATIENCE_S) -> None:  # noqa: F811
        self.bites = 0
        shop.queues = {"light": Counting(), "heavy": Counting()}
        shop.worker._me.watchdog = Watchdog(limit_s, self.bite)
        shop.worker._turns = Watchdog(limit_s, self.bite)
        self._both = shop.worker._me.watchdog, shop.worker._turns

    def bite(self) -> None:
        self.bites += 1

    def let_wait(self) -> bool:
        """Whether neither counts the time now."""
        return all(dog._waiting for dog in self._both)


def test_a_store_that_takes_nothing_is_waited_for_outside_of_a_jobs_limit_and_attempts(
    shop: Shop,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dogs, waited = Dogs(shop), list[bool]()
    sleeping = types.SimpleNamespace(sleep=lambda _seconds: waited.append(dogs.let_wait()), monotonic=time.monotonic)
    monkeypatch.setattr(driving, "time", sleeping)
    store = ClosedStore(lambda refusals: setattr(store, "is_open", refusals > 12))
    shop.worker._store = store
    shop.queue("heavy", "a")
    shop.plan("heavy")
    shop.open().until(lambda: shop.generated() == ["a"])
    assert waited == [True] * 13
    assert len(shop.queues["heavy"].absolved) == 1  # type: ignore[attr-defined]


def test_a_slow_store_and_a_slow_group_take_none_of_a_jobs_time(
    shop: Shop,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dogs, counted = Dogs(shop), list[tuple[str, bool]]()

    def noting(what: str, call: Callable[..., object]) -> Callable[..., object]:
        def noted(*args: object, **more: object) -> object:
            counted.append((what, not dogs.let_wait()))
            return call(*args, **more)

        return noted

    queue = shop.queues["heavy"]
    for name in ("begin", "absolve", "commit"):
        monkeypatch.setattr(queue, name, noting(name, getattr(queue, name)))
    store = ClosedStore(lambda refusals: setattr(store, "is_open", refusals > 0))
    monkeypatch.setattr(store, "put", noting("put", store.put))
    monkeypatch.setattr(driving, "time", types.SimpleNamespace(sleep=lambda _seconds: None, monotonic=time.monotonic))
    monkeypatch.setattr(StubEngine, "generate", noting("generate", StubEngine.generate))
    shop.worker._store = store
    shop.queue("heavy", "a")
    shop.plan("heavy")
    shop.open().until(lambda: ("commit", False) in counted)
    assert counted == [
        ("begin", False), ("generate", True), ("put", False), ("absolve", False), ("put", False), ("commit", False),
    ]  # fmt: skip


def test_a_store_that_answers_nothing_is_bitten_by_a_limit_of_its_own(shop: Shop) -> None:  # noqa: F811
    dogs, hung = Dogs(shop, LIMIT_S), threading.Event()
    shop.worker._calls = Watchdog(LIMIT_S * 5, hung.set)
    goes_on = threading.Event()
    store = ClosedStore(lambda _: goes_on.wait(PATIENCE_S) and None)
    shop.worker._store = store
    shop.queue("heavy", "a")
    shop.plan("heavy")
    shop.open().until(hung.is_set)
    assert dogs.bites == 0
    store.is_open = True
    goes_on.set()


@pytest.mark.parametrize("is_away", [False, True])
def test_a_commit_without_an_answer_ends_the_process_only_while_the_broker_answers_otherwise(
    shop: Shop,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    is_away: bool,
) -> None:
    dogs, ended, asked, goes_on = Dogs(shop), threading.Event(), list[bool](), threading.Event()
    decides = shop.worker._commits._hangs

    def hangs() -> bool:
        asked.append(decides())
        return asked[-1]

    def commit(_batch: list[Taken]) -> None:
        seen_ms = now_ms() - (120_000 if is_away else 0)
        shop.fleet.heartbeats = {"w-1": ReceivedHeartbeat(a_heartbeat(), seen_ms)}
        goes_on.wait(PATIENCE_S)

    shop.worker._commits = Watchdog(LIMIT_S, ended.set, hangs=hangs)
    monkeypatch.setattr(shop.queues["heavy"], "commit", commit)
    shop.queue("heavy", "a")
    shop.plan("heavy")
    shop.open().until(lambda: len(asked) > 2 or ended.is_set())
    goes_on.set()
    assert (ended.is_set(), set(asked)) == (not is_away, {not is_away})
    assert dogs.bites == 0


class Acknowledgement(Future[Delivered]):
    """Signals when somebody waits for it, and comes then."""

    def __init__(self, on_wait: Callable[[], None]) -> None:
        super().__init__()
        self._on_wait = on_wait

    def result(self, timeout: float | None = None) -> Delivered:
        if not self.done():
            self._on_wait()
        return super().result(timeout)


class LateProducer(MemoryRecordProducer):
    """A broker that takes images only when somebody waits for them, and the first `losses` not at all."""

    losses = 1
    error: DeliveryFailed = DeliveryFailed("timed out")

    def __init__(self, on_wait: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._on_wait = on_wait

    def send(self, record: Outgoing) -> "Future[Delivered]":
        if record.topic != IMAGES:
            return super().send(record)
        lost = self.losses > 0
        self.losses -= 1

        def answer() -> None:
            self._on_wait()
            if lost:
                future.set_exception(self.error)
            else:
                future.set_result(super(LateProducer, self).send(record).result())

        future = Acknowledgement(answer)
        return future


def test_a_broker_that_is_away_is_waited_for_outside_of_a_jobs_limit_and_told_again(
    shop: Shop,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RESEND_S", 0.01)
    dogs, waited = Dogs(shop), list[bool]()
    shop.producer = LateProducer(lambda: waited.append(dogs.let_wait()))
    shop.worker._producer = shop.producer
    shop.queue("heavy", "a")
    shop.plan("heavy")
    shop.open().until(lambda: shop.queues["heavy"].log == ["begin", "commit"])
    assert shop.generated() == ["a"]
    assert waited == [True, True]


def test_a_window_that_the_clients_leave_in_the_lurch_is_absolved_before_the_role_begins_again(
    shop: Shop,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Dogs(shop)
    monkeypatch.setattr(LIMITS, "_refused", {})  # what is learnt here is forgotten behind it
    shop.producer = LateProducer()
    shop.producer.error, shop.producer.losses = RecordTooLarge("the topic takes no such record"), 100
    shop.worker._producer = shop.producer
    shop.queue("heavy", "a")
    shop.plan("heavy")
    with pytest.raises(RecordTooLarge):
        shop.worker.run(shop.stopping)
    assert len(shop.queues["heavy"].absolved) == 1  # type: ignore[attr-defined]
    assert LIMITS.of(IMAGES) < MAX_BYTES, "a record that was refused by itself shows what its topic takes"
