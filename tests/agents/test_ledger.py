"""The ledger's own expiry: what could not be written is tried again."""

import threading
from collections.abc import Callable, Iterator
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from agents import ledger
from agents.lane import Lane
from agents.ledger import Ledger
from schemas.record import Incoming
from schemas.topics import DLQ, RESULTS
from streams.headers import DEADLINE
from streams.settings import Settings, load
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, a_classified, a_request, an_outcome
from tests.models.broker import Broker, Group, connected
from tests.patience import PATIENCE_S


class FailingLane:
    """Takes nothing."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def expire(self, overdue: list[Incoming]) -> int:  # noqa: ARG002  the shape of Lane.expire
        raise self._error


@pytest.mark.parametrize("error", [KafkaException(KafkaError(KafkaError._FENCED)), BufferError("queue full")])
def test_an_overdue_request_that_could_not_be_ended_is_still_overdue_in_the_next_session(error: Exception) -> None:
    role = Ledger(load({}))
    role._open.on_record(a_record(partition=2, headers={DEADLINE: b"100"}))
    with pytest.raises(type(error)):
        role._expire({2: cast(Lane, FailingLane(error))})
    assert [record.partition for record in role._open.overdue(2, 10_000, 0)] == [2]


def test_partitions_are_opened_together_as_requests_wait_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    # one after the other took 4 s for four: the first result after a broker's restart came 9 s late
    all_begun = threading.Barrier(4, timeout=PATIENCE_S)

    class Opening:
        def __init__(self, _settings: Settings, partition: int) -> None:
            self.partition = partition
            all_begun.wait()

    monkeypatch.setattr(ledger, "Lane", Opening)
    opened = ledger._opened(load({}), [0, 1, 2, 3])
    assert {partition: lane.partition for partition, lane in opened.items()} == {0: 0, 1: 1, 2: 2, 3: 3}


def test_partitions_that_are_handed_over_at_the_end_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    # librdkafka assigns from within `close`, seen with workers: a lane there fences the partition's new owner
    class Group:
        def __init__(self, _config: object) -> None: ...

        def subscribe(self, _topics: object, on_assign: Callable[..., None], **_callbacks: object) -> None:
            self.gain = on_assign

        def close(self) -> None:
            self.gain(self, [TopicPartition("outcomes", 0)])

    opened: list[list[int]] = []
    monkeypatch.setattr(ledger, "Consumer", Group)
    monkeypatch.setattr(ledger, "member_config", lambda *_: {})
    monkeypatch.setattr(ledger, "_opened", lambda _settings, numbers: opened.append(numbers) or {})
    stopping = threading.Event()
    stopping.set()
    Ledger(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}))._session(stopping)
    assert opened == []


@pytest.fixture
def lane() -> Iterator[tuple[Broker, Lane]]:
    broker = Broker(now_ms=NOW_MS)
    with connected(broker):
        yield broker, Lane(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), 0)


def results_of(broker: Broker) -> list[bytes | None]:
    return [written.key for written in broker.logs[f"pochade.{RESULTS}", 0]]


def test_a_request_that_was_classified_twice_expires_once(lane: tuple[Broker, Lane]) -> None:
    twice = [a_record(a_classified(a_request(deadline_ms=5)), offset=offset) for offset in (3, 9)]
    assert lane[1].expire(twice) == 1
    assert results_of(lane[0]) == [b"r-1"]


def test_an_outcome_under_a_foreign_key_is_kept_aside_as_it_may_lie_in_a_foreign_partition(
    lane: tuple[Broker, Lane],
) -> None:
    records = [a_record(an_outcome(request_id="b"), key=b"a"), a_record(an_outcome(request_id="c"), key=b"c")]
    lane[1].serve(records, Group(lane[0]))
    assert results_of(lane[0]) == [b"c"]
    assert [written.key for written in lane[0].logs[f"pochade.{DLQ}", 0]] == [b"a"]
    assert lane[1].expire([a_record(a_classified(a_request(request_id="d", deadline_ms=5)), key=b"e")]) == 0


class BreakingLane:
    """The broker goes away in its first transaction."""

    def __init__(self, code: int) -> None:
        self._code = code

    def serve(self, records: list[Incoming], group: object) -> None:  # noqa: ARG002  the shape of Lane.serve
        raise KafkaException(KafkaError(self._code))


def served(code: int) -> tuple[Broker, dict[int, Lane]]:
    broker, ledger = Broker(now_ms=NOW_MS), Ledger(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}))
    lanes = {0: cast(Lane, BreakingLane(code))}
    group, records = cast(Consumer, Group(broker)), [a_record(an_outcome(request_id="r"), key=b"r")]
    with connected(broker):
        ledger._on(lanes, 0, lambda lane: lane.serve(records, group))
    return broker, lanes


def test_a_transaction_that_a_brokers_death_broke_is_made_again_within_the_session() -> None:
    # a session that begins again waits until the group has missed its former member: seconds after a broker's restart
    broker, lanes = served(KafkaError._TIMED_OUT)
    assert results_of(broker) == [b"r"]
    assert isinstance(lanes[0], Lane)


def test_a_ledger_that_was_overtaken_does_not_take_its_partition_back() -> None:
    with pytest.raises(KafkaException):
        served(KafkaError._FENCED)


def test_an_input_offset_is_committed_only_after_its_results() -> None:
    broker, seen = Broker(now_ms=NOW_MS), list[tuple[list[bytes | None], int]]()

    class Watched(Group):
        def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
            seen.append((results_of(broker), offsets[0].offset))
            super().commit(offsets, asynchronous)

    with connected(broker):
        lane, group = Lane(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), 0), cast(Consumer, Watched(broker))
        lane.serve([a_record(an_outcome(request_id="r"), key=b"r", offset=6)], group)
    assert seen == [([b"r"], 7)]
