"""The one place that opens consumers: readers without a group, and members of one."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer

from streams.kafka.clients import ClusterSettings, client_config

# that a broker waits for more where the answer is empty; what comes meanwhile is answered at once
AT_AN_END_MS = 10  # for who reads up to an end, which only an empty answer names
FOLLOWING_MS = 500  # librdkafka's own: each empty answer costs the broker half a millisecond of its processor, measured


def open_consumer(cluster: ClusterSettings, name: str, properties: Mapping[str, Any] | None = None) -> Consumer:
    """Open a reader of committed records that commits nothing and joins no group; it reports each partition's end.

    `name`: brokers know it by PREFIX.NAME. `properties`: librdkafka's own, which win.

    Raises PochadeError: no broker is configured and none runs.
    """
    return open_as(reader_config(cluster, name, properties))


def open_as(config: Mapping[str, Any]) -> Consumer:
    """Open a reader by its configuration."""
    return Consumer(dict(config))


def reader_config(cluster: ClusterSettings, name: str, properties: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The configuration of what `open_consumer` opens. Raises PochadeError: no broker is configured and none runs."""
    reading: dict[str, Any] = {
        **client_config(cluster),
        "group.id": f"{cluster.kafka.prefix}.{name}",  # librdkafka wants one; it is never joined
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
    }
    return reading | dict(properties or {})


def open_member(member: Mapping[str, Any], properties: Mapping[str, Any]) -> Consumer:
    """A member of a group. `member`: how it begins (`streams.kafka.groups.groups.member_config`); `properties` win."""
    return Consumer({**member, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, **properties})
