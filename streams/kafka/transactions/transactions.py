"""Transactional producers: one holder of an id at a time, and every call with a time limit."""

from confluent_kafka import KafkaError, Producer

from streams.kafka.clients import ClusterSettings, producer_config
from streams.processes.watchdog import Bite, Watchdog

FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
BATCH_BYTES = 1_000_000  # the client's own default
GRACE_S = 5  # that a call may take beyond its own limit until it is taken for hung


def open_producer(
    cluster: ClusterSettings, transactional_id: str, limit_s: float, batch_bytes: int = BATCH_BYTES
) -> Producer:
    """Open a producer; after `init_transactions` no former holder of the id commits. `limit_s`: of one transaction.

    `batch_bytes`: what any topic takes at once; one record alone may be larger.
    """
    config, limit_ms = producer_config(cluster), round(limit_s * 1000)
    return Producer(
        {
            **config,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": limit_ms,
            "socket.timeout.ms": min(limit_ms, int(config["socket.timeout.ms"])),  # more is refused
            "batch.size": batch_bytes,
        }
    )


def is_fenced(error: KafkaError) -> bool:
    """Whether a newer producer has the id, so that this one can never commit again."""
    return error.code() in FENCED or error.fatal()


def watchdog(what: str, limit_s: float, bite: Bite | None = None) -> Watchdog:
    """Around calls with this limit of their own, which they may ignore.

    librdkafka 2.16.0's send_offsets_to_transaction never returned where a restarted broker had not named itself at
    first (its issues 5456 and 5511, seen here too).
    """
    return Watchdog(limit_s + GRACE_S, bite, what)
