"""A store or broker that is away for long: a worker waits, and its jobs are not to blame."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from agents import pictures
from agents import worker as module
from agents.job_source import Taken
from schemas.record import Delivered, Outgoing
from schemas.topics import IMAGES
from streams.memory import MemoryRecordProducer
from streams.producer import DeliveryFailed, RecordTooLarge
from streams.store import MemoryImageStore, StoreUnavailable
from streams.watchdog import Watchdog
from tests.agents.test_worker import Queue, Shop, catalog, shop  # noqa: F401  fixtures

LIMIT_S = 0.1


class ClosedStore(MemoryImageStore):
    """Takes nothing until it is opened; tells `on_refusal` of each refusal."""

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


class Bitten:
    """A worker whose watchdogs are seen to bite, and end nothing."""

    def __init__(self, shop: Shop) -> None:  # noqa: F811
        self.count = 0
        shop.queues = {"light": Counting(), "heavy": Counting()}
        shop.worker._me.watchdog = Watchdog(LIMIT_S, self.bite)
        shop.worker._turns = Watchdog(LIMIT_S, self.bite)

    def bite(self) -> None:
        self.count += 1


def test_a_store_that_takes_nothing_for_longer_than_a_job_may_take_ends_no_process_and_no_job(
    shop: Shop,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pictures, "AGAIN", lambda _state: LIMIT_S / 2)
    bitten = Bitten(shop)
    store = ClosedStore(lambda refusals: setattr(store, "is_open", refusals > 12))  # 6 limits of a job
    shop.worker._store = store
    shop.queue("heavy", "a")
    shop.plan("heavy")
    shop.open().until(lambda: shop.painted() == ["a"])
    assert bitten.count == 0
    assert len(shop.queues["heavy"].absolved) == 1  # type: ignore[attr-defined]


def test_a_store_that_answers_nothing_is_still_bitten(shop: Shop) -> None:  # noqa: F811
    bitten = Bitten(shop)
    hangs = threading.Event()
    store = ClosedStore(lambda _: hangs.wait(LIMIT_S * 5) and None)
    shop.worker._store = store
    shop.queue("heavy", "a")
    shop.plan("heavy")
    shop.open().until(lambda: bitten.count > 0)
    store.is_open = True
    hangs.set()


class LateProducer(MemoryRecordProducer):
    """A broker that takes the first `losses` pictures too late, and each only after `LIMIT_S` * 3."""

    losses = 1
    error: DeliveryFailed = DeliveryFailed("timed out")

    def send(self, record: Outgoing) -> "Future[Delivered]":
        if record.topic != IMAGES:
            return super().send(record)
        future: Future[Delivered] = Future()
        lost = self.losses > 0
        self.losses -= 1

        def answer() -> None:
            if lost:
                future.set_exception(self.error)
            else:
                future.set_result(super(LateProducer, self).send(record).result())

        threading.Timer(LIMIT_S * 3, answer).start()
        return future


def test_a_broker_that_is_away_for_longer_than_a_job_may_take_is_waited_for_and_told_again(
    shop: Shop,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RESEND_S", 0.01)
    bitten = Bitten(shop)
    shop.producer = LateProducer()
    shop.worker._producer = shop.producer
    shop.queue("heavy", "a")
    shop.plan("heavy")
    shop.open().until(lambda: shop.queues["heavy"].log == ["begin", "commit"])
    assert shop.painted() == ["a"]
    assert bitten.count == 0


def test_a_window_that_the_clients_leave_in_the_lurch_is_absolved_before_the_role_begins_again(
    shop: Shop,  # noqa: F811
) -> None:
    bitten = Bitten(shop)
    shop.producer = LateProducer()
    shop.producer.error = RecordTooLarge("the topic takes no such record")
    shop.worker._producer = shop.producer
    shop.queue("heavy", "a")
    shop.plan("heavy")
    with pytest.raises(RecordTooLarge):
        shop.worker.run(shop.stopping)
    assert len(shop.queues["heavy"].absolved) == 1  # type: ignore[attr-defined]
    assert bitten.count == 0
