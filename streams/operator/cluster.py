"""What the cluster says about this deployment: its topics with their configuration, rights, features and clock."""

import math
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigEntry, ConfigResource, NewTopic, ResourceType

from schemas.errors import PochadeError
from schemas.topics import IMAGES, RESULTS, full_name
from streams.broker import probe
from streams.kafka.clients import ANSWER_LIMIT_S, client_config, own_topics
from streams.settings import Settings

KAFKAS_SEGMENT_MS = 7 * 24 * 60 * 60 * 1000  # its default
DENIED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One topic as the cluster has it; `name` without the prefix."""

    name: str
    partitions: int
    replicas: int
    config: dict[str, str]
    is_told: bool = True  # else this user may not see the configuration

    @property
    def retention_ms(self) -> float:
        """How long a record stays; infinite for ever, and for a compacted topic."""
        limit = int(self.config.get("retention.ms", "-1"))
        return math.inf if limit < 0 or self.config.get("cleanup.policy") == "compact" else limit

    @property
    def segment_ms(self) -> float:
        """How much longer some records stay: whole segments are deleted, by their newest record."""
        return int(self.config.get("segment.ms", KAFKAS_SEGMENT_MS))


def topics(settings: Settings) -> dict[str, Found]:
    """This deployment's topics by their names without the prefix.

    Raises:
        PochadeError: the cluster does not answer, or does not let us look.
    """
    prefix = settings.kafka.prefix + "."
    names = own_topics(settings)
    if not names:
        return {}
    client = AdminClient(client_config(settings))
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    try:
        listed = client.list_topics(timeout=ANSWER_LIMIT_S).topics
        answers = {r.name: _told(f) for r, f in client.describe_configs(asked).items()}
    except KafkaException as failure:
        raise PochadeError(
            f"cannot look at the topics {prefix}*: {failure.args[0].str()}; grant DESCRIBE and DESCRIBE_CONFIGS on them"
        ) from None
    return {
        name.removeprefix(prefix): Found(
            name=name.removeprefix(prefix),
            partitions=len(listed[name].partitions),
            replicas=min((len(p.replicas) for p in listed[name].partitions.values()), default=0),
            config=answers[name] or {},
            is_told=answers[name] is not None,
        )
        for name in names
        if name in listed
    }


def _told(future: "Future[dict[str, ConfigEntry]]") -> dict[str, str] | None:
    """A configuration; None where this user may not see it."""
    try:
        return {key: str(entry.value) for key, entry in future.result(ANSWER_LIMIT_S).items()}
    except KafkaException as failure:
        if failure.args[0].code() in DENIED:
            return None
        raise


def deployments(settings: Settings) -> list[Settings]:
    """These settings once for each deployment on the cluster, told by their topics: other prefixes, such as demos'."""
    wanted = (f".{RESULTS}", f".{IMAGES}")
    names = set(probe.probe(client_config(settings), ANSWER_LIMIT_S).topics)
    prefixes = {name.removesuffix(wanted[0]) for name in names if name.endswith(wanted[0])}
    complete = sorted(prefix for prefix in prefixes if prefix + wanted[1] in names)
    kafka = settings.kafka
    return [settings.model_copy(update={"kafka": kafka.model_copy(update={"prefix": prefix})}) for prefix in complete]


def denied(settings: Settings, names: Iterable[str]) -> dict[str, list[str]]:
    """Topics (names without the prefix) that this user may not use -> the rights that are missing."""
    wanted = {AclOperation.READ: "READ", AclOperation.WRITE: "WRITE"}
    client = AdminClient(client_config(settings))
    asked = TopicCollection([full_name(settings.kafka.prefix, name) for name in names])
    answers = client.describe_topics(asked, include_authorized_operations=True, request_timeout=ANSWER_LIMIT_S)
    missing: dict[str, list[str]] = {}
    for name, future in answers.items():
        try:
            held = future.result(ANSWER_LIMIT_S).authorized_operations
        except KafkaException as failure:
            if failure.args[0].code() in DENIED:
                missing[name] = ["DESCRIBE"]
            continue  # a topic that does not exist is not a matter of rights
        if held is not None and (lacks := [word for right, word in wanted.items() if right not in held]):
            missing[name] = lacks
    return missing


def has_transactions(settings: Settings) -> str:
    """ "" if a transactional producer can begin here, else why not."""
    try:
        producer = Producer({**client_config(settings), "transactional.id": f"{settings.kafka.prefix}.doctor"})
        producer.init_transactions(ANSWER_LIMIT_S)
    except KafkaException as failure:
        return str(failure.args[0].str())
    return ""


def clock_skew_ms(settings: Settings) -> float:
    """The broker's clock minus ours, by the append time of a record on a topic made for it and deleted again.

    Raises:
        PochadeError: no such topic may be made, or the record was not taken.
    """
    name = full_name(settings.kafka.prefix, f"doctor-{uuid.uuid4().hex[:8]}")
    client = AdminClient(client_config(settings))
    new = NewTopic(name, 1, -1, config={"message.timestamp.type": "LogAppendTime", "retention.ms": "60000"})
    try:
        client.create_topics([new])[name].result(ANSWER_LIMIT_S)
        try:
            return _skew_on(settings, name)
        finally:
            client.delete_topics([name])[name].result(ANSWER_LIMIT_S)
    except KafkaException as failure:
        raise PochadeError(f"cannot use a topic {name} to ask the broker's time: {failure.args[0].str()}") from None


def _skew_on(settings: Settings, name: str) -> float:
    stamped: list[int] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            stamped.append(message.timestamp()[1])

    producer = Producer({**client_config(settings), "acks": "all", "linger.ms": 0})
    for _ in range(3):  # the first waits for metadata
        before = time.time()
        producer.produce(name, b"", on_delivery=on_delivery)
        if producer.flush(ANSWER_LIMIT_S):
            raise PochadeError(f"{name} took no record within {ANSWER_LIMIT_S:g} s")
        after = time.time()
    if not stamped:
        raise PochadeError(f"{name} refused a record")
    return stamped[-1] - (before + after) / 2 * 1000
