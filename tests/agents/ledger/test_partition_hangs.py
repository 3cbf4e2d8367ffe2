"""Transactions that never come back, found by `pochade chaos --only broker --only second --seed 32`."""

import contextlib
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaException

from agents.ledger import partition
from streams.kafka.transactions import lease, transactions
from streams.kafka.transactions.lease import KafkaLease, LeaseLost
from streams.settings import load
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, an_outcome
from tests.patience import PATIENCE_S
from tests.stateful.broker import Broker, Group, connected

SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1", "properties": {"log_level": "0"}}})


@pytest.fixture
def bitten(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a process would have been ended; a call that hangs comes back then."""
    monkeypatch.setattr(transactions, "GRACE_S", 0)
    monkeypatch.setattr(partition, "TRANSACTION_S", 0.01)
    monkeypatch.setattr(lease, "TRANSACTION_S", 0.005)
    return threading.Event()


def test_a_ledger_whose_transaction_hangs_ends_its_process(
    monkeypatch: pytest.MonkeyPatch, bitten: threading.Event
) -> None:
    broker = Broker(now_ms=NOW_MS)
    with connected(broker):
        served = partition.LedgerPartition(SETTINGS, 0, bite=bitten.set)
        monkeypatch.setattr(
            served._producer, "commit_transaction", lambda *_: bitten.wait(PATIENCE_S) or pytest.fail("nobody ended it")
        )
        with contextlib.suppress(KafkaException):  # it hangs no more, and nothing was written
            served.serve([a_record(an_outcome(request_id="r"), key=b"r", timestamp_ms=NOW_MS)], Group(broker))
    assert bitten.is_set()


@pytest.mark.parametrize("call", ["send_offsets_to_transaction", "commit_transaction"])
class Producer:
    """One that sees these brokers, and hangs in one call."""

    def __init__(self, bitten: threading.Event, hangs_in: str = "", brokers: tuple[int, ...] = (1,)) -> None:
        self._bitten, self._hangs_in, self._brokers = bitten, hangs_in, brokers
        self.calls: list[str] = []

    def list_topics(self, _topic: str, timeout: float) -> SimpleNamespace:  # noqa: ARG002
        return SimpleNamespace(brokers=dict.fromkeys(self._brokers))

    def __getattr__(self, name: str) -> Callable[..., object]:
        self.calls.append(name)
        return lambda *_: name != self._hangs_in or self._bitten.wait(PATIENCE_S) or pytest.fail("nobody ended it")


def lease_of(producer: Producer, bitten: threading.Event) -> KafkaLease:
    held = KafkaLease(SETTINGS, bitten.set)
    held._producer = producer  # type: ignore[assignment]
    return held


@pytest.mark.parametrize("call", ["send_offsets_to_transaction", "commit_transaction"])
def test_a_planner_whose_beat_hangs_ends_its_process(bitten: threading.Event, call: str) -> None:
    held = lease_of(Producer(bitten, hangs_in=call), bitten)
    held.write([], 1000)
    assert bitten.is_set()
    held.close()


def test_a_planner_whose_producer_goes_through_a_brokers_restart_gives_it_up(bitten: threading.Event) -> None:
    # found by broker restarts: the next beat hung for good in three of six
    producer = Producer(bitten, brokers=())  # a broker that is just back names none, itself included
    held = lease_of(producer, bitten)
    with pytest.raises(LeaseLost, match="did not take"):
        held.write([], 1000)
    assert producer.calls == []
    with pytest.raises(LeaseLost, match="was not taken"):
        held.write([], 2000)
    held.close()
