"""Topics that end with the marker of a transaction, which is an offset but no record."""

from confluent_kafka import Producer

from schemas.topics import RESULTS
from streams.kafka.clients import client_config, topic_name
from streams.settings import Settings


def end_with_markers(settings: Settings, end: str) -> int:
    """Write a record and a marker to every partition of `results`; how many of them a committed reader sees.

    `end`: "commit" | "abort".
    """
    producer = Producer({**client_config(settings), "transactional.id": f"{settings.kafka.prefix}.tail"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(4):
        producer.produce(topic_name(settings, RESULTS), b"v", partition=partition)
    producer.flush(30)
    (producer.commit_transaction if end == "commit" else producer.abort_transaction)(30)
    return 4 if end == "commit" else 0
