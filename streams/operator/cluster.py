"""Asks the cluster about this deployment: its topics and how they differ from the table, rights, features, clock."""

import math
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from schemas.errors import PochadeError
from schemas.topics import (
    CLASSIFIED,
    DLQ,
    ENDED,
    FLEET,
    FLOW_PARTITIONS,
    IMAGES,
    KEYS,
    OUTCOMES,
    PLAN,
    POISON,
    RESULTS,
    SCHEMAS,
    WEBHOOKS,
    Topic,
    full_name,
    table,
    topics_of,
)
from streams.broker import probe
from streams.kafka.clients import ANSWER_LIMIT_S, client_config
from streams.kafka.topics import own_topics
from streams.settings import Settings
from streams.visible import counted

KAFKAS_SEGMENT_MS = 7 * 24 * 60 * 60 * 1000  # Kafka's default of segment.ms
DENIED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
EVERYTHING = {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
CLEANUP = "cleanup.policy"  # Kafka's own default is "delete"
OF_VARIANT = re.compile(r"(?:jobs|waiting)\.(.+)\.v\d+")
JOINED = {CLASSIFIED, OUTCOMES, RESULTS, ENDED}  # the ledger joins them by partition
SINGLE = {PLAN, FLEET, SCHEMAS, KEYS, WEBHOOKS, POISON, DLQ}  # topics that must have one partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One topic as the cluster has it; `name` leaves out the deployment's prefix."""

    name: str
    partitions: int
    replicas: int
    config: dict[str, str]
    lagging: int = 0  # partitions of which a copy is away or has not caught up
    is_config_visible: bool = True  # False: this user may not see it, and `config` is empty

    @property
    def retention_ms(self) -> float:
        """Retention of a record in milliseconds; infinite where none is set, and for a compacted topic."""
        limit = int(self.config.get("retention.ms", "-1"))
        return math.inf if limit < 0 or self.config.get(CLEANUP) == "compact" else limit

    @property
    def segment_ms(self) -> float:
        """Span of a segment in milliseconds: records may outlive the retention by it, as whole segments are deleted."""
        return int(self.config.get("segment.ms", KAFKAS_SEGMENT_MS))


def topics(settings: Settings) -> dict[str, Found]:
    """Return this deployment's topics by their names without the prefix.

    Raises PochadeError: the cluster does not answer, or this user may not describe topics.
    """
    prefix = settings.kafka.prefix + "."
    names = own_topics(settings)
    if not names:
        return {}
    client = AdminClient(client_config(settings))
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    try:
        listed = client.list_topics(timeout=ANSWER_LIMIT_S).topics
        answers = {r.name: _configuration(f) for r, f in client.describe_configs(asked).items()}
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
            lagging=sum(len(p.isrs) < len(p.replicas) for p in listed[name].partitions.values()),
            is_config_visible=answers[name] is not None,
        )
        for name in names
        if name in listed
    }


def _configuration(future: "Future[dict[str, ConfigEntry]]") -> dict[str, str] | None:
    """Return a topic's configuration; None where this user may not see it."""
    try:
        return {key: str(entry.value) for key, entry in future.result(ANSWER_LIMIT_S).items()}
    except KafkaException as failure:
        if failure.args[0].code() in DENIED:
            return None
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One property in which a topic differs from the topic table."""

    topic: str  # with the prefix
    what: str  # `topic`, `partitions`, or a configuration's name
    wanted: str
    found: str
    do: str


def variants_of(names: Iterable[str]) -> list[str]:
    """Return the variants that have a topic of their own among these names (without the prefix)."""
    return sorted({match[1] for name in names if (match := OF_VARIANT.fullmatch(name))})


def expected(variants: Iterable[str], jobs_partitions: int, flow_partitions: int = FLOW_PARTITIONS) -> list[Topic]:
    """Return the topics of the table, and those of these variants."""
    own = (topic for variant in sorted(set(variants)) for topic in topics_of(variant, jobs_partitions))
    return [*table(flow_partitions), *own]


def after_creation(wanted: Iterable[Topic], found: Mapping[str, Found]) -> dict[str, Found]:
    """Return the topics that there are once the missing ones have been created as the table says."""
    made = {
        topic.name: Found(name=topic.name, partitions=topic.partitions, replicas=1, config=dict(topic.config))
        for topic in wanted
    }
    return made | dict(found)


def differences(wanted: Iterable[Topic], found: Mapping[str, Found], prefix: str) -> list[Difference]:
    """Return how topics differ from the table, in its order.

    More partitions than wanted are no difference, except on topics that are joined by partition or must have one.
    """
    result: list[Difference] = []
    for topic in wanted:
        name = full_name(prefix, topic.name)
        there = found.get(topic.name)
        if there is None:
            text = f"{counted(topic.partitions, 'partition')}, {_words(topic.config)}"
            variant = OF_VARIANT.fullmatch(topic.name)
            option = f" --variant {variant[1]}" if variant else ""
            result.append(_difference(name, "topic", text, "missing", f"pochade topics create{option}"))
            continue
        is_enough = there.partitions >= topic.partitions if topic.name not in (JOINED | SINGLE) - {OUTCOMES} else False
        if there.partitions != topic.partitions and not is_enough:
            do = _partitions_advice(topic, there, name)
            result.append(_difference(name, "partitions", str(topic.partitions), str(there.partitions), do))
        for key, value in {CLEANUP: "delete", **topic.config}.items() if there.is_config_visible else ():
            has = there.config.get(key, "delete" if key == CLEANUP else "unset")
            if has != value:
                do = f"kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config {key}={value}"
                result.append(_difference(name, key, value, has, do))
    return result


def _partitions_advice(topic: Topic, there: Found, name: str) -> str:
    if topic.name in SINGLE:
        return f"Kafka cannot take partitions away: delete {name} while no role runs, then pochade topics create"
    if there.partitions > topic.partitions:
        return "fine if classified, outcomes and results all have as many: Kafka cannot take partitions away"
    if topic.name in JOINED:  # a request's key would move away from the partition that knows whether it has ended
        return "leave it if all of classified, outcomes and results have as many; else begin with another kafka.prefix"
    return f"kafka-topics.sh --alter --topic {name} --partitions {topic.partitions}"


def _difference(topic: str, what: str, wanted: str, found: str, do: str) -> Difference:
    return Difference(topic=topic, what=what, wanted=wanted, found=found, do=do)


def _words(config: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in config.items()) or "no configuration"


def deployments(settings: Settings) -> list[Settings]:
    """Return these settings once for each deployment on the cluster, with its prefix; a demo is a deployment too.

    A deployment is a prefix under which the topics `results` and `images` exist.
    """
    wanted = (f".{RESULTS}", f".{IMAGES}")
    names = set(probe.probe(client_config(settings), ANSWER_LIMIT_S).topics)
    prefixes = {name.removesuffix(wanted[0]) for name in names if name.endswith(wanted[0])}
    complete = sorted(prefix for prefix in prefixes if prefix + wanted[1] in names)
    kafka = settings.kafka
    return [settings.model_copy(update={"kafka": kafka.model_copy(update={"prefix": prefix})}) for prefix in complete]


def denied(settings: Settings, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the topics that this user may not use -> the rights that are missing. `names` leave out the prefix."""
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


def are_rights_in_force(settings: Settings, name: str) -> bool | None:
    """Return whether the cluster checks what users may do; None if it does not say.

    `name`: of a topic, with the prefix. Who may not do everything with it knows it by that; others ask for the rules,
    which only a cluster that checks rights has.
    """
    client = AdminClient(client_config(settings))
    asked = client.describe_topics(
        TopicCollection([name]), include_authorized_operations=True, request_timeout=ANSWER_LIMIT_S
    )
    held = asked[name].result(ANSWER_LIMIT_S).authorized_operations
    if held is not None and not set(held) >= EVERYTHING:
        return True
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    try:
        client.describe_acls(every, request_timeout=ANSWER_LIMIT_S).result(ANSWER_LIMIT_S)
    except KafkaException as failure:
        code = failure.args[0].code()
        return {KafkaError.SECURITY_DISABLED: False, KafkaError.CLUSTER_AUTHORIZATION_FAILED: True}.get(code)
    return True


def has_transactions(settings: Settings) -> str:
    """Return "" if this user can begin transactions on the cluster, else the reason why not."""
    try:
        producer = Producer({**client_config(settings), "transactional.id": f"{settings.kafka.prefix}.doctor"})
        producer.init_transactions(ANSWER_LIMIT_S)
    except KafkaException as failure:
        return str(failure.args[0].str())
    return ""


def clock_skew_ms(settings: Settings) -> float:
    """Return the broker's clock minus ours in milliseconds, by the append time of a record on a temporary topic.

    Raises PochadeError: the topic may not be created, or the broker did not take the record.
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
    for _ in range(3):  # the first attempt waits for metadata
        before = time.time()
        producer.produce(name, b"", on_delivery=on_delivery)
        if producer.flush(ANSWER_LIMIT_S):
            raise PochadeError(f"{name} took no record within {ANSWER_LIMIT_S:g} s")
        after = time.time()
    if not stamped:
        raise PochadeError(f"{name} refused a record")
    return stamped[-1] - (before + after) / 2 * 1000
