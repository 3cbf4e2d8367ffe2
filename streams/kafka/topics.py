"""Finds and creates the topics that must exist before a role may run."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicMetadata,
)
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from schemas.errors import PochadeError
from schemas.topics import Topic, table, topics_of
from streams.broker import address, probe
from streams.kafka.clients import ANSWER_LIMIT_S, client_config, topic_name
from streams.settings import Settings

log = logging.getLogger(__name__)

LAST: dict[str, Any] = {"retry_error_callback": lambda state: state.outcome.result()}  # the last answer, not an error
IN_SYNC, SIZE = "min.insync.replicas", "max.message.bytes"
SAFE_COPIES = 3  # with which one broker may be away and two are still in sync


def own_topics(settings: Settings) -> list[str]:
    """Return the names of this deployment's topics that exist. Raises Unreachable: the cluster does not answer."""
    found = probe.probe(client_config(settings), ANSWER_LIMIT_S).topics
    return sorted(name for name in found if name.startswith(settings.kafka.prefix + "."))


def create_topics(settings: Settings, variants: Sequence[str] = ()) -> list[str]:
    """Create the missing topics of the topic table and of the variants; return the names created.

    Existing topics stay as they are. On the embedded broker one copy is kept, elsewhere as many as the cluster says, of
    which two must be in sync before a record is acknowledged where there are three. A cluster that allows no records
    of the table's size gets its own limit. Raises PochadeError: which topic the cluster refused, why, and what to do.
    """
    exists = set(own_topics(settings))
    wanted: list[Topic] = [
        *table(settings.kafka.flow_partitions),
        *(topic for variant in variants for topic in topics_of(variant, settings.kafka.jobs_partitions)),
    ]
    missing = {topic_name(settings, topic.name): topic for topic in wanted}
    missing = {name: topic for name, topic in missing.items() if name not in exists}
    if not missing:
        return []
    is_foreign = address.is_foreign(settings)
    client = _admin(settings)  # must live until the answers are here
    failures = _create(client, missing, -1 if is_foreign else 1)
    small = {name: _unsized(missing[name]) for name, failure in failures.items() if _may_be_of_size(failure)}
    if small:
        failures |= _create(client, small, -1 if is_foreign else 1)
        if made := sorted(name for name in small if failures[name] is None):
            log.warning("the cluster allows no %s of the table; with its own limit: %s", SIZE, ", ".join(made))
    for name, failure in failures.items():
        if failure is not None and failure.code() != KafkaError.TOPIC_ALREADY_EXISTS:  # made by another meanwhile
            topic = missing[name]
            raise PochadeError(
                f"the cluster refused to create topic {name}: {failure.str()}. Grant CREATE on "
                f"{settings.kafka.prefix}.* or have it created with {topic.partitions} partitions and {topic.config}"
            )
    created = sorted(name for name, failure in failures.items() if failure is None)
    if is_foreign:
        _have_two_in_sync(client, created)
    return created


def _create(client: AdminClient, topics: Mapping[str, Topic], copies: int) -> dict[str, KafkaError | None]:
    """Create topics; return by name the cluster's objection, None for a topic that it created."""
    new = [NewTopic(name, topic.partitions, copies, config=topic.config) for name, topic in topics.items()]
    futures = client.create_topics(new, operation_timeout=ANSWER_LIMIT_S, request_timeout=ANSWER_LIMIT_S)
    return {name: _failure(future) for name, future in futures.items()}


def _may_be_of_size(failure: KafkaError | None) -> bool:
    return failure is not None and failure.code() in (KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG)


def _unsized(topic: Topic) -> Topic:
    return replace(topic, config={name: value for name, value in topic.config.items() if name != SIZE})


def _have_two_in_sync(client: AdminClient, names: Sequence[str]) -> None:
    """Set topics of three copies or more so that two hold an acknowledged record: one broker may be lost for good.

    Kafka's own default is one. A cluster that refuses is left as it is: `doctor` reports it.
    """
    found = _listed(client, names)
    safe = [name for name in names if name in found and _copies(found[name]) >= SAFE_COPIES]
    entry = ConfigEntry(IN_SYNC, "2", incremental_operation=AlterConfigOpType.SET)
    wanted = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry]) for name in safe]
    futures = client.incremental_alter_configs(wanted, request_timeout=ANSWER_LIMIT_S) if wanted else {}
    if refused := [failure.str() for failure in map(_failure, futures.values()) if failure is not None]:
        log.warning("topics keep the cluster's own %s: %s", IN_SYNC, refused[0])


def _listed(client: AdminClient, names: Sequence[str]) -> dict[str, TopicMetadata]:
    """Return the topics that exist; some that were created a moment ago may not be known everywhere yet."""

    def ask() -> dict[str, TopicMetadata]:
        try:
            found = client.list_topics(timeout=ANSWER_LIMIT_S).topics
        except KafkaException as error:
            log.warning("cannot see the topics that were made: %s", error)
            return {}
        return {name: found[name] for name in names if name in found}

    is_short = retry_if_result(lambda found: len(found) < len(names))
    asking = Retrying(retry=is_short, stop=stop_after_delay(ANSWER_LIMIT_S), wait=wait_fixed(0.1), **LAST)
    return asking(ask)


def _copies(topic: TopicMetadata) -> int:
    return min((len(partition.replicas) for partition in topic.partitions.values()), default=0)


def _admin(settings: Settings) -> AdminClient:
    return AdminClient(client_config(settings))


def _failure(future: "Future[None]") -> KafkaError | None:
    try:
        future.result(timeout=2 * ANSWER_LIMIT_S)
    except KafkaException as failure:
        return failure.args[0]
    return None
