"""One partition of the ledger: what it ends, what it keeps aside and what it moves."""

import dataclasses
from collections.abc import Iterator
from typing import cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from agents.ledger.partition import LedgerPartition
from agents.ledger.topics import LedgerTopics
from schemas.messages import Result, Status
from schemas.topics import DLQ, OUTCOMES, RESULTS, SKEW_MS, WINDOW_MS
from streams import metrics
from streams.codec.avro import decode
from streams.kafka.producers.partitioner import partition_of
from streams.settings import load
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, a_classified, a_request, an_outcome
from tests.stateful.broker import Broker, Group, connected

SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})


@pytest.fixture
def lane() -> Iterator[tuple[Broker, LedgerPartition]]:
    broker = Broker(now_ms=NOW_MS)
    with connected(broker):
        yield broker, LedgerPartition(SETTINGS, 0)


def results_of(broker: Broker) -> list[bytes | None]:
    return [written.key for written in broker.logs[f"pochade.{RESULTS}", 0] if written.is_committed]


def letters_of(broker: Broker) -> list[bytes | None]:
    return [written.key for written in broker.logs[f"pochade.{DLQ}", 0] if written.is_committed]


def test_a_request_that_was_classified_twice_expires_once(lane: tuple[Broker, LedgerPartition]) -> None:
    said = metrics.OUTCOMES.labels("ledger", Status.EXPIRED)
    before = said._value.get()
    twice = [a_record(a_classified(a_request(deadline_ms=5)), offset=offset, timestamp_ms=NOW_MS) for offset in (3, 9)]
    assert lane[1].expire(twice) == ["r-1"]
    assert results_of(lane[0]) == [b"r-1"]
    assert said._value.get() == before, "the session counts it, once it is committed"
    log = lane[0].logs[f"pochade.{RESULTS}", 0]
    (reason,) = [decode(each.value, Result).reason for each in log if each.is_committed and each.value]
    assert reason.startswith("it had no result by deadline_ms 5: ")
    assert reason.endswith("`pochade doctor` says what is missing")


def test_an_outcome_under_a_foreign_key_is_kept_aside_as_it_may_lie_in_a_foreign_partition(
    lane: tuple[Broker, LedgerPartition],
) -> None:
    records = [a_record(an_outcome(request_id="b"), key=b"a"), a_record(an_outcome(request_id="c"), key=b"c")]
    lane[1].serve(records, Group(lane[0]))
    assert results_of(lane[0]) == [b"c"]
    assert letters_of(lane[0]) == [b"a"]
    assert lane[1].expire([a_record(a_classified(a_request(request_id="d", deadline_ms=5)), key=b"e")]) == []


def test_an_input_offset_is_committed_only_after_its_results() -> None:
    broker, seen = Broker(now_ms=NOW_MS), list[tuple[list[bytes | None], int]]()

    class Watched(Group):
        def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
            seen.append((results_of(broker), offsets[0].offset))
            super().commit(offsets, asynchronous)

    with connected(broker):
        lane, group = LedgerPartition(SETTINGS, 0), cast(Consumer, Watched(broker))
        lane.serve([a_record(an_outcome(request_id="r"), key=b"r", offset=6)], group)
    assert seen == [([b"r"], 7)]


def test_a_result_larger_than_its_topic_takes_ends_failed_and_those_beside_it_are_served() -> None:
    # the topic's limit is unknown (no right to ask): it is learnt as records are refused
    broker = Broker(now_ms=NOW_MS, takes={f"pochade.{RESULTS}": 4000, f"pochade.{DLQ}": 5000})
    long = a_request(request_id="b", prompt="x" * 6000)
    outcomes = [an_outcome(request_id="a"), an_outcome(request_id="b", request=long), an_outcome(request_id="c")]
    with connected(broker):
        lane = LedgerPartition(SETTINGS, 0)
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
        lane = LedgerPartition(SETTINGS, 0, LedgerTopics(partitions=4))
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
        LedgerPartition(SETTINGS, 0).serve(records, cast(Consumer, Group(broker)))
    assert (results_of(broker), letters_of(broker)) == ([b"young"], [b"old"])
