"""How large a record each topic takes: the cluster's own `max.message.bytes`, which may be below what we would write.

The one place to ask before a record is written. What is known belongs to the process (`LIMITS`): asked for at start and
each minute, and learnt from refusals where the cluster does not let us ask.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from schemas.errors import PochadeError
from schemas.record import Delivered, Outgoing
from schemas.topics import DLQ
from streams.broker import probe
from streams.kafka.clients import client_config
from streams.kafka.producer import MOST_BYTES, RecordProducer, RecordTooLarge, size_of
from streams.settings import Settings

log = logging.getLogger(__name__)

CONFIG = "max.message.bytes"  # of a batch with its framing, after compression
FRAME_BYTES = 100  # a batch's own 61 bytes, and at most 36 of a record's lengths and differences
LEAST_BYTES = 100  # a limit below this takes no record of ours; it is kept, so that cutting a letter ends
ANSWER_LIMIT_S = 5.0
FIRST_ANSWER_S = 1.0  # that a process waits for when it starts
ASK_AGAIN_S = 60.0
SENDS_ALONE = 2  # of a record that should fit and was refused for its size: other records may have shared its batch
ASK_SOON_S = 1.0  # until the first answer


class TopicLimits:
    """Bytes that one record may have, by topic (names without prefix). Thread-safe."""

    def __init__(self, max_message_bytes: Mapping[str, int] | None = None) -> None:
        """`max_message_bytes`: what is known of the topics' configuration."""
        self._lock = threading.Lock()
        self._configured = dict(max_message_bytes or {})
        self._refused: dict[str, int] = {}  # where nobody tells: the most that has not been refused

    def of(self, topic: str) -> int:
        """The most that `size_of` a record for this topic may be; of a topic not known, our own limit."""
        with self._lock:
            told = self._configured.get(topic)
            limit = self._refused.get(topic, MOST_BYTES) if told is None else told - FRAME_BYTES
        return max(LEAST_BYTES, min(MOST_BYTES, limit))

    def is_known(self, topic: str) -> bool:
        """Whether the cluster told this topic's limit."""
        with self._lock:
            return topic in self._configured

    def check(self, record: Outgoing) -> None:
        """Raise RecordTooLarge for what its topic would not take, before it stands in the way of other records."""
        size, most = size_of(record), self.of(record.topic)
        if size > most:
            raise RecordTooLarge(
                f"a record for {record.topic} may have {most} bytes, headers included: got {size}; "
                f"{CONFIG} of the topic may be raised up to {MOST_BYTES + FRAME_BYTES}"
            )

    def batch_bytes(self) -> int:
        """The most that a producer for all known topics may put into one batch: a topic refuses a larger one whole."""
        with self._lock:
            return min(self._configured.values(), default=MOST_BYTES)

    def refused(self, record: Outgoing) -> None:
        """The cluster did not take this record for its size. A dead letter can be cut, so its limit is halved."""
        size = size_of(record)
        with self._lock:
            if record.topic not in self._configured:
                limit = size // 2 if record.topic == DLQ else size - 1
                self._refused[record.topic] = min(limit, self._refused.get(record.topic, MOST_BYTES))

    def ask(self, settings: Settings) -> bool:
        """Ask the cluster for the limits of this deployment's topics; whether there is any. Blocks some seconds.

        Raises:
            PochadeError: it does not answer, or does not let us ask (DESCRIBE_CONFIGS); what is known stays.
        """
        told = _configured(settings)
        with self._lock:
            self._configured = told
            self._refused.clear()
        return bool(told)


LIMITS = TopicLimits()  # what this process knows of its deployment's topics


def written(
    producer: RecordProducer, record: Outgoing, future: Future[Delivered], limit_s: float, limits: TopicLimits = LIMITS
) -> Delivered:
    """Where a record lies that was sent; blocks up to `limit_s` a send.

    A record that is refused for its size is sent again, as it may have shared its batch with too many.

    Raises:
        RecordTooLarge: it was refused by itself too; from now on `check` tells before it is sent.
        DeliveryFailed: it was not written.
    """
    for _ in range(SENDS_ALONE):
        try:
            return future.result(limit_s)
        except RecordTooLarge:
            if size_of(record) > limits.of(record.topic):
                break
            future = producer.send(record)
    try:
        return future.result(limit_s)
    except RecordTooLarge:
        limits.refused(record)
        raise


def batching(limits: TopicLimits = LIMITS) -> dict[str, int]:
    """Properties of a producer whose batches no known topic refuses."""
    size = limits.batch_bytes()
    return {"batch.size": size} if size < MOST_BYTES else {}


@contextlib.contextmanager
def kept_fresh(settings: Settings, limits: TopicLimits = LIMITS) -> Iterator[TopicLimits]:
    """The limits, asked for now and each minute until the end of the block; a cluster that does not tell is logged.

    Topics that are not there yet are asked for again soon: whoever makes them may be late. A cluster that is away is
    not waited for: whoever starts has other things to load meanwhile.
    """
    stopping, was_asked = threading.Event(), threading.Event()
    arguments = settings, limits, stopping, was_asked
    thread = threading.Thread(target=_keep_asking, args=arguments, name="topic-limits", daemon=True)
    thread.start()
    was_asked.wait(FIRST_ANSWER_S)
    try:
        yield limits
    finally:
        stopping.set()  # not joined: it may be asking a cluster that is away


def _keep_asking(
    settings: Settings, limits: TopicLimits, stopping: threading.Event, was_asked: threading.Event
) -> None:
    wait_s = ASK_SOON_S
    while not stopping.is_set():
        has_answered = _ask(settings, limits)
        was_asked.set()
        stopping.wait(ASK_AGAIN_S if has_answered else wait_s)
        wait_s = min(ASK_AGAIN_S, 2 * wait_s)


def _ask(settings: Settings, limits: TopicLimits) -> bool:
    try:
        return limits.ask(settings)
    except PochadeError as error:
        log.warning("what the topics take is learnt from what they refuse: %s", error)
        return False


def _configured(settings: Settings) -> dict[str, int]:
    config, prefix = client_config(settings), settings.kafka.prefix + "."
    names = [name for name in probe.probe(config, ANSWER_LIMIT_S).topics if name.startswith(prefix)]
    if not names:
        return {}
    client = AdminClient(config)  # must live until the answers are here
    asked = client.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    try:
        answers = {resource.name: future.result(ANSWER_LIMIT_S) for resource, future in asked.items()}
    except TimeoutError:
        raise PochadeError(f"cannot ask for {CONFIG}: no broker answers within {ANSWER_LIMIT_S:g} s") from None
    except KafkaException as error:
        raise PochadeError(f"cannot ask for {CONFIG} (grant DESCRIBE_CONFIGS on the topics): {error}") from None
    return {name.removeprefix(prefix): int(found[CONFIG].value) for name, found in answers.items()}
