"""Five million requests that ended ten days ago, in segments that still hold them: a ledger ends none of them again."""

import os
import threading
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from agents.runtime.assembly import ledger_of
from schemas.topics import CLASSIFIED, DAY_MS, FLOW_PARTITIONS, OUTCOMES, RESULTS
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.codec.headers import DEADLINE
from streams.kafka.clients import client_config, topic_name
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.builders import a_classified, a_request, an_outcome
from tests.integration.conftest import broker_home, new_home, only_our_settings, settings  # noqa: F401  fixtures
from tests.integration.test_ledger_memory import alter
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

OLD = int(os.environ.get("OLD_RECORDS", 5_000_000))
WAITING = 80  # outcomes that are served while old requests might be taken for open
MARKERS = 200  # records at most that recoveries and transactions add beside results


def write(settings: Settings, topic: str, name: str, count: int, at_ms: int) -> None:  # noqa: F811
    """`count` records of one value under different keys."""
    if topic == CLASSIFIED:
        value, headers = encode(a_classified(a_request(deadline_ms=at_ms + 1000))), [(DEADLINE, b"%d" % (at_ms + 1000))]
    else:
        value, headers = b"\0", []
    config = {"partitioner": "murmur2_random", "linger.ms": 50, "queue.buffering.max.messages": 500_000}
    producer = Producer({**client_config(settings), **config})
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, f"{name}-{number}", timestamp=at_ms, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


def ends(settings: Settings) -> int:  # noqa: F811
    """Of all partitions of `results`, added up."""
    consumer = Consumer({**client_config(settings), "group.id": "ends"})
    places = [TopicPartition(topic_name(settings, RESULTS), partition) for partition in range(FLOW_PARTITIONS)]
    total = sum(consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1] for place in places)
    consumer.close()
    return total


@pytest.mark.timeout(2400)
def test_a_ledger_that_starts_ends_no_request_of_ten_days_ago_again(settings: Settings) -> None:  # noqa: F811
    create_topics(settings)
    for topic in (CLASSIFIED, RESULTS):  # only writers' own times can be ten days old today
        alter(settings, topic, message__timestamp__type="CreateTime", retention__ms="-1", segment__ms=str(7 * DAY_MS))
    old_ms = now_ms() - 10 * DAY_MS
    write(settings, topic_name(settings, CLASSIFIED), "old", OLD, old_ms)
    write(settings, topic_name(settings, RESULTS), "old", OLD, old_ms)
    producer = Producer({**client_config(settings), "partitioner": "murmur2_random"})
    for number in range(WAITING):
        name = f"r-{number}"
        producer.produce(topic_name(settings, OUTCOMES), encode(an_outcome(request_id=name)), name)
    assert producer.flush(PATIENCE_S) == 0
    before = ends(settings)
    chunks, stopping = KafkaRecordProducer(settings), threading.Event()
    role = ledger_of(settings, chunks)
    thread = threading.Thread(target=role.run, args=(stopping,))
    began_s = time.monotonic()
    thread.start()
    try:
        poll_until(lambda: ends(settings) >= before + WAITING, "the results of what waited")
        print(f"served {time.monotonic() - began_s:.1f} s after its start")
        time_to_expire_s = time.monotonic() + 20  # the former reproduction had expired 93,710 by then
        poll_until(lambda: time.monotonic() > time_to_expire_s, "time for a wrong end")
    finally:
        stopping.set()
        thread.join(PATIENCE_S)
        chunks.close()
    assert before + WAITING <= ends(settings) <= before + WAITING + MARKERS
