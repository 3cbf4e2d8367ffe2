"""What a ledger remembers, on the real broker: chunks, old records, sizes that a topic refuses, foreign partitions."""

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from agents.ledger import topics
from agents.ledger.partition import LedgerPartition
from agents.ledger.remembered import CHUNK_REST
from agents.ledger.role import Ledger
from agents.ledger.topics import LedgerTopics
from agents.runtime.assembly import ledger_of
from schemas.ids import DIGEST_BYTES
from schemas.messages import Result, Status
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, DAY_MS, DLQ, ENDED, OUTCOMES, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.codec.headers import DEADLINE
from streams.kafka.clients import client_config, topic_name
from streams.kafka.consumers import snapshot
from streams.kafka.producers.partitioner import partition_of
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.topic_limits import FRAME_BYTES, TopicLimits
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.builders import a_classified, a_request, an_outcome
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

Record = tuple[str, bytes, Mapping[str, bytes]]  # key, value, headers

PARTITION = 1
THREE_IDS = LedgerTopics(limits=TopicLimits({ENDED: CHUNK_REST + 3 * DIGEST_BYTES + FRAME_BYTES}))  # a chunk


@pytest.fixture
def made(settings: Settings) -> Settings:
    create_topics(settings)
    return settings


@pytest.fixture
def group(made: Settings) -> Iterator[Consumer]:
    group = Consumer({**client_config(made), "group.id": f"{made.kafka.prefix}.ledger"})
    yield group
    group.close()


def alter(settings: Settings, topic: str, **config: str) -> None:
    wanted = {name.replace("__", "."): value for name, value in config.items()}
    entries = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in wanted.items()]
    admin, name = AdminClient(client_config(settings)), topic_name(settings, topic)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)

    def is_known() -> bool:
        (found,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]).values()
        try:
            reported = {key: entry.value for key, entry in found.result(PATIENCE_S).items()}
        except KafkaException:  # a topic that was made just now
            return False
        return wanted.items() <= reported.items()

    poll_until(is_known, "the broker's new configuration")


def outcome(offset: int, name: str, at_ms: int = 0, **changes: object) -> Incoming:
    return Incoming(
        topic=OUTCOMES, partition=PARTITION, offset=offset, timestamp_ms=at_ms or now_ms(), key=name.encode(),
        value=encode(an_outcome(request_id=name, **changes)),
    )  # fmt: skip


def results(settings: Settings) -> list[Result]:
    return [decode(record.value, Result) for record in snapshot.past(settings, [RESULTS])]


def write(settings: Settings, topic: str, records: Sequence[Record], at_ms: int) -> None:
    producer = Producer({**client_config(settings), "partitioner": "murmur2_random", "linger.ms": 5})
    for key, value, headers in records:
        producer.produce(topic_name(settings, topic), value, key, timestamp=at_ms, headers=list(headers.items()))
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


@contextmanager
def running(settings: Settings) -> Iterator[Ledger]:
    producer, stopping = KafkaRecordProducer(settings), threading.Event()
    role = ledger_of(settings, producer)
    thread = threading.Thread(target=role.run, args=(stopping,))
    thread.start()
    try:
        yield role
    finally:
        stopping.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        producer.close()


def read_offsets(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where each recovery begins to read `results`."""
    from agents.ledger import remembered

    begun, read_past = list[int](), remembered.read_past

    def watched(reader: Consumer, start: object, *rest: object) -> None:
        begun.append(start.offset)  # type: ignore[attr-defined]
        read_past(reader, start, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(remembered, "read_past", watched)
    return begun


def test_a_restart_reads_only_the_results_that_no_chunk_tells_of(
    made: Settings, group: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, producer = read_offsets(monkeypatch), KafkaRecordProducer(made)
    names = [f"r-{n}" for n in range(7)]

    def lane() -> LedgerPartition:
        return LedgerPartition(made, PARTITION, THREE_IDS, send=producer.send)

    first = lane()
    for offset, name in enumerate(names):
        first.serve([outcome(offset, name)], group)
    producer.client.flush(PATIENCE_S)
    assert len(snapshot.past(made, [ENDED])) == 2
    assert lane().ended.among(names) == set(names)
    assert [begin > 0 for begin in begun] == [False, True], "all of `results` was read again"
    producer.close()


def test_a_deployment_that_had_no_chunks_reads_its_results_whole_once(
    made: Settings, group: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"r-{n}" for n in range(7)]
    before = LedgerPartition(made, PARTITION)  # the way before: nothing is written to `ended`
    before.serve([outcome(offset, name) for offset, name in enumerate(names)], group)
    begun, producer = read_offsets(monkeypatch), KafkaRecordProducer(made)
    for _ in range(2):
        upgraded = LedgerPartition(made, PARTITION, THREE_IDS, send=producer.send)
        assert upgraded.ended.among([*names, "another"]) == set(names)
        producer.client.flush(PATIENCE_S)
    assert [begin > 0 for begin in begun] == [False, True]
    assert LedgerPartition(made, PARTITION, LedgerTopics(has_ended=False)).ended.among(names) == set(names)
    producer.close()


def test_chunks_of_a_topic_that_was_made_anew_hide_none_of_its_results(made: Settings, group: Consumer) -> None:
    producer = KafkaRecordProducer(made)
    known = LedgerTopics(limits=THREE_IDS.limits, ids={RESULTS: "before"})
    lane = LedgerPartition(made, PARTITION, known, send=producer.send)
    lane.serve([outcome(n, f"r-{n}") for n in range(4)], group)
    producer.client.flush(PATIENCE_S)
    lane = LedgerPartition(made, PARTITION, LedgerTopics(ids={RESULTS: "after"}))
    assert lane.ended.among(["r-0", "r-3"]) == {"r-0", "r-3"}
    assert lane.remembered._first == 0, "a chunk of the former topic was believed"
    producer.close()


def test_what_the_cluster_tells_of_the_topics_is_taken_over(made: Settings) -> None:
    alter(made, RESULTS, max__message__bytes="4000", retention__ms=str(3 * DAY_MS))
    alter(made, ENDED, retention__ms=str(2 * DAY_MS))
    told = topics.ask(made)
    assert (told.limits.of(RESULTS), told.limits.batch_bytes(), told.window_ms) == (
        4000 - FRAME_BYTES,
        4000,
        3 * DAY_MS,
    )
    assert (told.partitions, told.has_ended, len(told.ids)) == (4, True, 5)


@pytest.mark.parametrize("is_told", [True, False])
def test_one_result_above_what_its_topic_takes_ends_failed_and_the_others_as_they_are(
    made: Settings, group: Consumer, is_told: bool
) -> None:
    # 38 sessions in two minutes, and nothing of that partition ended any more
    alter(made, RESULTS, max__message__bytes="4000")
    known = dataclasses.replace(topics.ask(made), partitions=0)  # these ids belong anywhere
    lane = LedgerPartition(made, PARTITION, known if is_told else LedgerTopics())
    long = a_request(request_id="r-2", prompt="x" * 6000)
    outcomes = [outcome(n, f"r-{n}", status=Status.EXPIRED, **({"request": long} if n == 2 else {})) for n in range(6)]
    lane.serve(outcomes, group)
    lane.serve([outcome(9, "r-9", status=Status.EXPIRED)], group)
    poll_until(lambda: len(results(made)) >= 7 and snapshot.past(made, [DLQ]), "all that was committed")
    found = {result.request_id: result for result in results(made)}
    assert {name for name, result in found.items() if result.status is Status.EXPIRED} == {
        "r-0", "r-1", "r-3", "r-4", "r-5", "r-9",
    }  # fmt: skip
    assert (found["r-2"].status, "RecordTooLarge" in found["r-2"].reason) == (Status.FAILED, True)
    assert [letter.key for letter in snapshot.past(made, [DLQ])] == [b"r-2"]


def test_the_producer_puts_keys_where_the_ledger_expects_them(made: Settings) -> None:
    names = [f"r-{n}" for n in range(60)] + ["a", "ab", "abc", "é" * 40]
    write(made, OUTCOMES, [(name, b"", {}) for name in names], now_ms())
    found = {(record.key or b"").decode(): record.partition for record in snapshot.past(made, [OUTCOMES])}
    assert found == {name: partition_of(name.encode(), 4) for name in names}


def test_outcomes_written_with_another_partitioner_end_their_requests_once(made: Settings) -> None:
    # librdkafka's own default put 8 of 10 into foreign partitions, and these ended twice
    names = [f"r-{n}" for n in range(40)]
    for options in ({}, {"partitioner": "murmur2_random"}):
        producer = Producer({**client_config(made), **options})
        for name in names:
            producer.produce(topic_name(made, OUTCOMES), encode(an_outcome(request_id=name)), name)
        assert producer.flush(PATIENCE_S) == 0
    with running(made) as role:
        poll_until(lambda: len(results(made)) >= len(names), "all results")
        write(made, OUTCOMES, [(f"end-{n}", encode(an_outcome(request_id=f"end-{n}")), {}) for n in range(8)], now_ms())
        poll_until(lambda: len(results(made)) >= len(names) + 8, "the end")
        assert role.membership.not_ready() == ""
    assert set(Counter(result.request_id for result in results(made)).values()) == {1}


def test_partitions_that_an_operator_adds_to_outcomes_end_requests_once(made: Settings) -> None:
    names = [f"r-{n}" for n in range(40)]
    some = names[:20]
    write(made, OUTCOMES, [(name, encode(an_outcome(request_id=name)), {}) for name in some], now_ms())
    admin = AdminClient(client_config(made))
    (grown,) = admin.create_partitions([NewPartitions(topic_name(made, OUTCOMES), 6)]).values()
    grown.result(PATIENCE_S)
    with running(made) as role:
        poll_until(lambda: len(results(made)) >= len(some), "what was written before")
        producer = Producer(client_config(made))
        for partition, name in enumerate([*names, *names]):  # those that have ended too, wherever they lie
            producer.produce(
                topic_name(made, OUTCOMES), encode(an_outcome(request_id=name)), name, partition=partition % 6
            )
        assert producer.flush(PATIENCE_S) == 0
        poll_until(lambda: len(results(made)) >= len(names), "all results")
        write(made, OUTCOMES, [(f"end-{n}", encode(an_outcome(request_id=f"end-{n}")), {}) for n in range(8)], now_ms())
        poll_until(lambda: len(results(made)) >= len(names) + 8, "the end")
        assert role.membership.not_ready() == ""
    assert {result.request_id for result in results(made)} >= set(names)
    assert set(Counter(result.request_id for result in results(made)).values()) == {1}


def overdue(name: str, deadline_ms: int) -> Record:
    request = a_classified(a_request(request_id=name, deadline_ms=deadline_ms))
    return name, encode(request), {DEADLINE: str(deadline_ms).encode()}


def test_an_overdue_request_expires_once_and_what_is_older_than_the_window_never(made: Settings) -> None:
    # segments hold records longer than their topic's retention: 600,000 ended requests of ten days ago were open to a
    # ledger that had just begun, and 93,710 of them ended a second time
    for topic in (CLASSIFIED, RESULTS):
        alter(made, topic, message__timestamp__type="CreateTime", retention__ms="-1")
    old_ms = now_ms() - 10 * DAY_MS
    write(made, CLASSIFIED, [overdue(f"old-{n}", old_ms + 1000) for n in range(200)], old_ms)
    write(made, CLASSIFIED, [overdue(f"r-{n}", now_ms() - 5000) for n in range(20)], now_ms())
    far_ms = now_ms() + 10 * DAY_MS
    write(made, CLASSIFIED, [overdue("far", far_ms)], now_ms())
    with running(made):
        poll_until(lambda: len(results(made)) >= 20, "what is overdue")
    with running(made):  # it reads all of this again
        poll_until(reading_on(made), "another session")
    assert Counter(result.request_id for result in results(made)) == Counter(
        [*(f"r-{n}" for n in range(20)), *(f"again-{n}" for n in range(8))]
    )


def reading_on(settings: Settings) -> Callable[[], bool]:
    """Whether outcomes written now, one a partition at least, have results: by then the sweep before it is over."""
    names = [f"again-{n}" for n in range(8)]
    write(settings, OUTCOMES, [(name, encode(an_outcome(request_id=name)), {}) for name in names], now_ms())
    since_s = time.monotonic()
    return lambda: time.monotonic() - since_s > 2 and {*names} <= {result.request_id for result in results(settings)}
