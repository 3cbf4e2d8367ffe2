"""The ledger's own expiry: what could not be written is tried again."""

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from agents.ledger import role as ledger
from agents.ledger.broker_clock import MOST_OFF_MS, BrokerClock, ClockOff
from agents.ledger.partition import Lane
from agents.ledger.role import Ledger
from agents.ledger.topics import LedgerTopics
from schemas.messages import Result, Status
from schemas.record import Incoming
from schemas.topics import DAY_MS, DLQ, OUTCOMES, RESULTS, SKEW_MS, WINDOW_MS
from streams.codec.avro import decode
from streams.kafka.partitioner import partition_of
from streams.settings import Settings, load
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, a_classified, a_request, an_outcome
from tests.patience import PATIENCE_S
from tests.stateful.broker import Broker, Group, connected


def test_partitions_are_opened_together_as_requests_wait_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    # one after the other took 4 s for four: the first result after a broker's restart came 9 s late
    all_begun = threading.Barrier(4, timeout=PATIENCE_S)

    class Opening:
        def __init__(self, _settings: Settings, partition: int, *_: object) -> None:
            self.partition = partition
            all_begun.wait()

    monkeypatch.setattr(ledger, "Lane", Opening)
    monkeypatch.setattr(ledger.ledger_topics, "ask", lambda _settings: LedgerTopics())
    opened = Ledger(load({}))._opened([0, 1, 2, 3])
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
    monkeypatch.setattr(Ledger, "_opened", lambda _self, numbers: opened.append(numbers) or {})
    stopping = threading.Event()
    stopping.set()
    Ledger(SETTINGS)._session(stopping)
    assert opened == []


SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})


@pytest.fixture
def lane() -> Iterator[tuple[Broker, Lane]]:
    broker = Broker(now_ms=NOW_MS)
    with connected(broker):
        yield broker, Lane(SETTINGS, 0)


def results_of(broker: Broker) -> list[bytes | None]:
    return [written.key for written in broker.logs[f"pochade.{RESULTS}", 0] if written.is_committed]


def letters_of(broker: Broker) -> list[bytes | None]:
    return [written.key for written in broker.logs[f"pochade.{DLQ}", 0] if written.is_committed]


def test_a_request_that_was_classified_twice_expires_once(lane: tuple[Broker, Lane]) -> None:
    twice = [a_record(a_classified(a_request(deadline_ms=5)), offset=offset, timestamp_ms=NOW_MS) for offset in (3, 9)]
    assert lane[1].expire(twice) == ["r-1"]
    assert results_of(lane[0]) == [b"r-1"]


def test_an_outcome_under_a_foreign_key_is_kept_aside_as_it_may_lie_in_a_foreign_partition(
    lane: tuple[Broker, Lane],
) -> None:
    records = [a_record(an_outcome(request_id="b"), key=b"a"), a_record(an_outcome(request_id="c"), key=b"c")]
    lane[1].serve(records, Group(lane[0]))
    assert results_of(lane[0]) == [b"c"]
    assert letters_of(lane[0]) == [b"a"]
    assert lane[1].expire([a_record(a_classified(a_request(request_id="d", deadline_ms=5)), key=b"e")]) == []


class BreakingLane(Lane):
    """The broker goes away in its first transaction."""

    code = 0

    def serve(self, records: Sequence[Incoming], group: Consumer) -> list[str]:
        code, self.code = self.code, 0
        if code:
            raise KafkaException(KafkaError(code))
        return super().serve(records, group)


def served(code: int) -> Broker:
    broker, ledger = Broker(now_ms=NOW_MS), Ledger(SETTINGS)
    group, records = (
        cast(Consumer, Group(broker)),
        [a_record(an_outcome(request_id="r"), key=b"r", timestamp_ms=NOW_MS)],
    )
    with connected(broker):
        breaking = BreakingLane(SETTINGS, 0)
        breaking.code = code
        ledger._on({0: breaking}, 0, lambda lane: lane.serve(records, group))
    return broker


def test_a_transaction_that_a_brokers_death_broke_is_made_again_within_the_session() -> None:
    # a session that begins again waits until the group has missed its former member: seconds after a broker's restart
    broker = served(KafkaError._TIMED_OUT)
    assert results_of(broker) == [b"r"]
    assert broker.epochs["pochade.ledger.0"] == 2, "a new producer, that fences the one before"


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
        lane, group = Lane(SETTINGS, 0), cast(Consumer, Watched(broker))
        lane.serve([a_record(an_outcome(request_id="r"), key=b"r", offset=6)], group)
    assert seen == [([b"r"], 7)]


def test_a_result_larger_than_its_topic_takes_ends_failed_and_those_beside_it_are_served() -> None:
    # the topic's limit was not told (no right to ask): it is learnt as records are refused
    broker = Broker(now_ms=NOW_MS, takes={f"pochade.{RESULTS}": 4000, f"pochade.{DLQ}": 5000})
    long = a_request(request_id="b", prompt="x" * 6000)
    outcomes = [an_outcome(request_id="a"), an_outcome(request_id="b", request=long), an_outcome(request_id="c")]
    with connected(broker):
        lane = Lane(SETTINGS, 0)
        for run in range(2):
            records = [
                a_record(each, key=each.request_id.encode(), offset=run, timestamp_ms=NOW_MS)
                for each in (dataclasses.replace(each, request_id=f"{each.request_id}{run}") for each in outcomes)
            ]
            lane.serve(records, cast(Consumer, Group(broker)))
    results = [decode(each.value, Result) for each in broker.logs[f"pochade.{RESULTS}", 0] if each.is_committed]
    assert {result.request_id: result.status for result in results} == {
        "a0": Status.FAILED, "b0": Status.FAILED, "c0": Status.FAILED,
        "a1": Status.FAILED, "b1": Status.FAILED, "c1": Status.FAILED,
    }  # fmt: skip
    assert [result.request_id for result in results if "makes no result: RecordTooLarge" in result.reason] == [
        "b0",
        "b1",
    ]
    assert letters_of(broker) == [b"b0", b"b1"], "cut to what the dlq takes"


def test_an_outcome_in_a_foreign_partition_is_moved_to_its_own_and_not_answered() -> None:
    broker, key = Broker(now_ms=NOW_MS), next(f"r-{n}" for n in range(50) if partition_of(b"r-%d" % n, 4) == 2).encode()
    with connected(broker):
        lane = Lane(SETTINGS, 0, LedgerTopics(partitions=4))
        found = a_record(an_outcome(request_id=key.decode()), key=key, timestamp_ms=NOW_MS)
        lane.serve([found], cast(Consumer, Group(broker)))
        (moved,) = broker.read((f"pochade.{OUTCOMES}", 2), 0, 9)
        assert (moved.key, moved.value, results_of(broker)) == (key, found.value, [])
        lane.serve([dataclasses.replace(found, headers=moved.headers)], cast(Consumer, Group(broker)))
    assert letters_of(broker) == [key], "it is moved once"
    assert results_of(broker) == []


def test_an_outcome_older_than_what_is_remembered_makes_no_result() -> None:
    broker = Broker(now_ms=NOW_MS)
    old_ms, young_ms = NOW_MS - WINDOW_MS, NOW_MS - WINDOW_MS + 2 * SKEW_MS
    with connected(broker):
        records = [
            a_record(an_outcome(request_id=name), key=name.encode(), timestamp_ms=at_ms)
            for name, at_ms in (("old", old_ms), ("young", young_ms))
        ]
        Lane(SETTINGS, 0).serve(records, cast(Consumer, Group(broker)))
    assert (results_of(broker), letters_of(broker)) == ([b"young"], [b"old"])


def test_a_ledger_whose_clock_is_off_serves_nothing_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    # nine days ahead it forgot all that had ended, and ended 40 of 40 a second time
    broker, role = Broker(now_ms=NOW_MS), Ledger(SETTINGS)
    with connected(broker):
        for off_ms in (9 * DAY_MS, -MOST_OFF_MS - 1):
            clock = BrokerClock(lambda off_ms=off_ms: NOW_MS + off_ms, lambda: 0)  # type: ignore[misc]
            with pytest.raises(ClockOff, match="run NTP"):
                Lane(SETTINGS, 0, clock=clock)
        Lane(SETTINGS, 0, clock=BrokerClock(lambda: NOW_MS + MOST_OFF_MS, lambda: 0))
    stopping = threading.Event()

    def session(_stopping: threading.Event) -> None:
        stopping.set()
        raise ClockOff("this machine's clock is off")

    monkeypatch.setattr(role, "_session", session)
    role._try_session(stopping)
    assert role.membership.not_ready() == "waits for the broker: this machine's clock is off"


def test_deadlines_pass_by_the_brokers_clock_and_a_clock_that_jumps_is_found_out() -> None:
    wall, steady = [NOW_MS + 20_000], [5]
    clock = BrokerClock(lambda: wall[0], lambda: steady[0])
    assert clock.now_ms() == NOW_MS + 20_000, "none has been heard yet"
    clock.hear(NOW_MS)
    steady[0] += 1000
    assert clock.now_ms() == NOW_MS + 1000
    wall[0] += DAY_MS
    with pytest.raises(ClockOff):
        clock.check()
