"""Transient errors, which pass by themselves while brokers restart and topics are new, and retries until they have."""

from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ClusterMetadata
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

TRANSIENT = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}
PASSING = {  # the client marks few errors as `retriable`
    *TRANSIENT, KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._RESOLVE,
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.REQUEST_TIMED_OUT,
    KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION, KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._DESTROY_BROKER,  # the broker asked has just left the cluster, as the client learns meanwhile
    KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.OFFSET_NOT_AVAILABLE,
}  # fmt: skip
UNKNOWN_YET = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}  # topics
RETRY_WAIT = wait_fixed(0.1)  # s

T = TypeVar("T")


class Client(Protocol):
    """A consumer, or a client of the admin."""

    def list_topics(self, topic: str, timeout: float) -> ClusterMetadata: ...


def may_pass(error: KafkaError) -> bool:
    """Whether the same question may be answered a moment later."""
    return error.retriable() or error.code() in PASSING


def patiently(ask: Callable[[], T], limit_s: float, also: Collection[int] = ()) -> T:
    """The answer, asked for again while what stands in its way may pass.

    `also`: codes that pass for this question. Raises KafkaException: what does not pass, or not within `limit_s`.
    """

    def passes(error: BaseException) -> bool:
        return isinstance(error, KafkaException) and (may_pass(error.args[0]) or error.args[0].code() in also)

    asking = Retrying(retry=retry_if_exception(passes), stop=stop_after_delay(limit_s), wait=RETRY_WAIT, reraise=True)
    return asking(ask)


def partitions_of(client: Client, topic: str, limit_s: float) -> list[int]:
    """Return the partitions of a topic. Raises KafkaException without such a topic, or without an answer in time."""
    found = client.list_topics(topic, timeout=limit_s).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    return sorted(found.partitions)
