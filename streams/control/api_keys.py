"""The topic `keys`: reads the API keys of the gateway's clients, writes one."""

import contextlib

from schemas.errors import Unknown
from schemas.messages import ApiKey
from schemas.record import Outgoing
from schemas.topics import KEYS
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.codec.headers import stamp
from streams.codec.schema_topic import announce
from streams.kafka.clients import topic_name
from streams.kafka.consumers import snapshot
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics, own_topics
from streams.security.api_keys import KeyRing
from streams.settings import Settings

WRITE_TIMEOUT_S = 15
READ_S = 60  # for reading the topic to its end before the first key is asked for


def stored(settings: Settings) -> list[ApiKey]:
    """Return what is stored of all keys, the oldest first. Raises PochadeError, as `snapshot.past`."""
    ring = KeyRing()
    if topic_name(settings, KEYS) in own_topics(settings):
        for _ in snapshot.readable(snapshot.past(settings, [KEYS]), ring.on_record):
            pass  # the ring has taken it in
    return ring.keys()


def followed_keys(settings: Settings, stack: contextlib.ExitStack) -> KeyRing:
    """Return all keys, read to the topic's end, and followed until the stack closes. Raises PochadeError."""
    ring = KeyRing()
    keys = TopicTailer(settings, [KEYS], ring.on_record)
    stack.callback(keys.close)
    keys.start().wait_caught_up(READ_S)
    return ring


def one_of(keys: list[ApiKey], key_id: str) -> ApiKey:
    """Return the key with an id. Raises Unknown, with the known ones."""
    found = {each.key_id: each for each in keys}
    if key_id not in found:
        raise Unknown("API key", key_id, found)
    return found[key_id]


def store(settings: Settings, key: ApiKey) -> None:
    """Write what is known of a key: gateways obey within a second. The topic is created where it is missing.

    Raises PochadeError: the broker does not take it in time.
    """
    create_topics(settings)
    headers = stamp({}, kind="ApiKey", source="operator", subject=key.key_id, time_ms=now_ms())
    producer = KafkaRecordProducer(settings)
    try:
        announce(settings, producer, (ApiKey,))
        record = Outgoing(topic=KEYS, key=key.key_id.encode(), value=encode(key), headers=headers)
        send_all(producer, [record], WRITE_TIMEOUT_S)
    finally:
        producer.close()
