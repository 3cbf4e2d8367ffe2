"""The configuration that every Kafka client starts from: address, properties, and the names of topics."""

from collections.abc import Mapping
from typing import Protocol

from schemas.topics import full_name
from streams.security.secrets import with_secrets

ANSWER_MS = 10_000  # of a request to one broker: then its connection is given up, and asked anew
ANSWER_LIMIT_S = 15.0
CLIENT_ID = "pochade"  # of every client of ours, for brokers and `doctor`; `client.id` of kafka.properties wins


class KafkaSettings(Protocol):
    """Protocol of the settings in `[kafka]` that clients read."""

    @property
    def prefix(self) -> str:
        """Prefix of topics, PREFIX.NAME, and of groups, PREFIX.ROLE."""

    @property
    def properties(self) -> Mapping[str, str]:
        """librdkafka's own properties."""

    @property
    def session_timeout_ms(self) -> int:
        """Silence until a member's partitions move on."""


class ClusterSettings(Protocol):
    """Protocol of the settings that a client needs; `streams.settings.Settings` satisfies it."""

    @property
    def kafka(self) -> KafkaSettings:
        """The names, properties and timeouts."""

    def broker_address(self) -> str:
        """Address to connect to. Raises PochadeError: no broker is configured and none runs."""


def config_of(bootstrap: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Configuration that any librdkafka client of ours begins with; `properties` win, secrets read from their files.

    Reconnects come quickly, because the default of 10 s would outlast a broker's restart. A broker that does not answer
    for ANSWER_MS is left, because the default of 60 s would outlast the move of its partitions: an idempotent producer
    sends nothing to a partition's new leader until the old one has answered, and uses a whole core meanwhile
    (librdkafka's issues 2565 and 3692). librdkafka prints only what is critical: connection errors reach `error_cb`,
    which every long-lived client must set.
    """
    return {
        "bootstrap.servers": bootstrap,
        "client.id": CLIENT_ID,
        "reconnect.backoff.ms": "50",
        "reconnect.backoff.max.ms": "1000",
        "socket.timeout.ms": str(ANSWER_MS),
        "log_level": "2",
        "log.connection.close": "false",
        **with_secrets(properties),
    }


def client_config(cluster: ClusterSettings) -> dict[str, str]:
    """Return the configuration of every client: address, quick reconnects, then `[kafka.properties]` untouched.

    Raises PochadeError: no broker is configured and none runs.
    """
    return config_of(cluster.broker_address(), cluster.kafka.properties)


def producer_config(cluster: ClusterSettings) -> dict[str, str]:
    """`client_config`, no waiting for more records, and as long as a record's copies may take until it is sent again.

    Raises PochadeError: no broker is configured and none runs.
    """
    return {"request.timeout.ms": str(ANSWER_MS), "linger.ms": "0", **client_config(cluster)}


def topic_name(cluster: ClusterSettings, name: str) -> str:
    """A topic of the table, as this deployment calls it."""
    return full_name(cluster.kafka.prefix, name)
