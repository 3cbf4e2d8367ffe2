"""Facts of the topics that the ledger reads and writes, asked of the cluster when partitions are gained."""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from schemas.topics import CLASSIFIED, DLQ, ENDED, OUTCOMES, RESULTS, WINDOW_MS
from streams.kafka.clients import ClusterSettings, client_config, topic_name
from streams.kafka.producers.topic_limits import CONFIG, TopicLimits

log = logging.getLogger(__name__)

ANSWER_S = 10.0
WRITTEN = (RESULTS, OUTCOMES, DLQ)  # in transactions
JOINED = (OUTCOMES, RESULTS, ENDED)  # created with equal numbers of partitions; an operator may have added more to some


@dataclass(frozen=True, slots=True)
class LedgerTopics:
    """Limits, retention and ids of the ledger's topics; defaults for what the cluster does not state."""

    limits: TopicLimits = field(default_factory=TopicLimits)  # bytes of a record, by topic
    window_ms: int = WINDOW_MS  # how far back ended requests are certainly known
    partitions: int = 0  # number that the ledger's topics share; 0 if unknown
    ids: Mapping[str, str] = field(default_factory=dict)  # topic -> Kafka's id of it
    has_ended: bool = True  # whether there is the topic `ended`


def ask(cluster: ClusterSettings) -> LedgerTopics:
    """Read them from the cluster; without the right DESCRIBE_CONFIGS, or from an old broker, defaults stay.

    Raises:
        KafkaException: the broker does not answer.
    """
    admin = AdminClient(client_config(cluster))
    listed = admin.list_topics(timeout=ANSWER_S).topics
    there = {name: topic_name(cluster, name) for name in (*WRITTEN, CLASSIFIED, ENDED)}
    there = {name: full for name, full in there.items() if full in listed}
    configs = _configs(admin, there)
    if ENDED not in there:
        log.warning(
            "there is no topic %s: every start reads all of `results`; make it with `pochade topics create`",
            topic_name(cluster, ENDED),
        )
    kept_ms = [_retention_ms(configs[name]) for name in (RESULTS, ENDED) if name in configs]
    return LedgerTopics(
        limits=TopicLimits({name: int(config[CONFIG]) for name, config in configs.items() if CONFIG in config}),
        window_ms=int(min(WINDOW_MS, max(kept_ms, default=WINDOW_MS))),
        partitions=min((len(listed[there[name]].partitions) for name in JOINED if name in there), default=0),
        ids=_ids(admin, there),
        has_ended=ENDED in there,
    )


def _retention_ms(config: Mapping[str, str]) -> float:
    kept = int(config.get("retention.ms", WINDOW_MS))
    return math.inf if kept < 0 else kept


def _configs(admin: AdminClient, there: Mapping[str, str]) -> dict[str, dict[str, str]]:
    asked = [ConfigResource(ResourceType.TOPIC, full) for full in there.values()]
    names = {full: name for name, full in there.items()}
    found: dict[str, dict[str, str]] = {}
    for resource, future in admin.describe_configs(asked, request_timeout=ANSWER_S).items():
        try:
            entries: dict[str, Any] = future.result(ANSWER_S)
        except (KafkaException, TimeoutError) as error:
            log.warning("the limits of %s are unknown, they are learnt from refusals: %s", resource.name, error)
            continue
        found[names[resource.name]] = {key: str(entry.value) for key, entry in entries.items()}
    return found


def _ids(admin: AdminClient, there: Mapping[str, str]) -> dict[str, str]:
    if not there:
        return {}
    names = {full: name for name, full in there.items()}
    found: dict[str, str] = {}
    for full, future in admin.describe_topics(TopicCollection(list(there.values())), request_timeout=ANSWER_S).items():
        try:
            found[names[full]] = str(future.result(ANSWER_S).topic_id)
        except (KafkaException, TimeoutError) as error:
            log.warning("Kafka's id of %s is unknown: %s", full, error)
    return found
