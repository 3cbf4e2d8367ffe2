"""Whether the user of these settings may do what the roles of a process do: asked at its start, answered by name.

Without this a missing right is met later, by one role after the other, and some of librdkafka's calls wait for it.
What would let others in is logged: a user with more rights than any role needs, and connections in the clear.
"""

import ipaddress
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from schemas.access import GROUPS, OF_VARIANTS, TRANSACTIONS, read_by, written_by
from schemas.errors import PochadeError
from schemas.topics import full_name, topics_of
from streams.broker import probe
from streams.kafka.clients import ANSWER_LIMIT_S, client_config
from streams.kafka.groups.description import Group, described
from streams.security.refusals import refused_by_python
from streams.security.security import FAUST_ROLES, PLAINTEXT, SSL
from streams.settings import Settings

log = logging.getLogger(__name__)

NEW_RIGHTS_S = 3.0  # brokers learn of a new right a moment after it was granted
RETRY_S = 0.5
NOBODYS = {"ALTER", "DELETE"}  # rights on topics that no role needs
PROBE = "start"  # suffix of the transactional id that is tried, so that no other producer is fenced
DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class AccessDenied(PochadeError):
    """The cluster accepts the user, but a right is missing."""


def check_access(settings: Settings, roles: Iterable[str], variants: Sequence[str]) -> None:
    """Return if these roles have their rights, or the cluster has no authentication.

    Raises:
        Unreachable: the cluster does not answer or does not let us in; the message says why.
        AccessDenied: which rights are missing on what, and what to do.
    """
    config = client_config(settings)
    protocol = config.get("security.protocol", PLAINTEXT).upper()
    hosts = [each.rpartition(":")[0].strip(" []") for each in config["bootstrap.servers"].split(",")]
    if not protocol.endswith(SSL) and (beyond := [each for each in hosts if not is_loopback(each)]):
        log.warning(
            "connections to %s are %s: prompts, and tenants' URIs of images, can be read and altered on the way; give "
            "the brokers a listener with TLS, and set kafka.properties: streams/security/README.md", ", ".join(beyond),
            protocol,
        )  # fmt: skip
    if protocol == PLAINTEXT:
        return
    probe.probe(config, ANSWER_LIMIT_S)
    if FAUST_ROLES & {*roles} and (fault := refused_by_python(config)):
        raise probe.NotLetIn(f"Faust cannot connect to the Kafka cluster at {config['bootstrap.servers']}: {fault}")
    prefix = settings.kafka.prefix
    for role in sorted(roles):
        deadline = time.monotonic() + NEW_RIGHTS_S
        while missing := _missing(config, prefix, role, variants):
            if time.monotonic() > deadline:
                raise AccessDenied(_describe(role, missing, config))
            time.sleep(RETRY_S)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host, by its name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name that others may resolve, too


def _describe(role: str, missing: Sequence[str], config: Mapping[str, str]) -> str:
    user = config.get("sasl.username", "")
    principal = f"User:{user or 'NAME'}"
    who = f"user {user}" if user else "the user of this client's certificate or token"
    return (
        f"{who} has not every right that the {role} needs: {'; '.join(missing)}. "
        f"`pochade topics acls --role {role} --principal {role}={principal}` prints the commands that grant them"
    )


def _missing(config: Mapping[str, str], prefix: str, role: str, variants: Sequence[str]) -> list[str]:
    client = AdminClient(dict(config))  # must live until the answers are here
    return [
        *_on_topics(client, prefix, role, variants),
        *_on_groups(config, prefix, role, variants),
        *_on_transactions(config, prefix, role),
    ]


def _on_topics(client: AdminClient, prefix: str, role: str, variants: Sequence[str]) -> list[str]:
    wanted: dict[str, set[str]] = {}
    for right, topics in (("READ", read_by(role)), ("WRITE", written_by(role))):
        for topic in topics:
            for name in _of_variants(topic, variants) if topic in OF_VARIANTS else [topic]:
                wanted.setdefault(full_name(prefix, name), {"DESCRIBE"}).add(right)
    answers = client.describe_topics(
        TopicCollection(list(wanted)), include_authorized_operations=True, request_timeout=ANSWER_LIMIT_S
    )
    missing, wider = [], []
    for name, future in answers.items():
        held = _operations(future)
        lacks = sorted(wanted[name] - held) if held is not None else []
        missing += [f"{', '.join(lacks)} on topic {name}"] if lacks else []
        wider += [name] if held and held >= NOBODYS else []
    if wider:
        log.warning(
            "the %s may change and delete %s, which no role needs: the cluster checks no rights, or has given all to "
            "this user; `pochade topics acls` prints the rights of each role", role, ", ".join(wider),
        )  # fmt: skip
    return missing


def _of_variants(begin: str, variants: Sequence[str]) -> list[str]:
    """Return the topics of these variants whose names begin so."""
    return [each.name for variant in variants for each in topics_of(variant, 1) if each.name.startswith(begin)]


def _operations(future: "Future[Any]") -> set[str] | None:
    """Return the operations that this user may do on a described resource; None if unknown, or it does not exist."""
    try:
        held = future.result(2 * ANSWER_LIMIT_S).authorized_operations
    except KafkaException as failure:
        return set() if failure.args[0].code() in DENIED else None
    return None if held is None else {right.name for right in held}


def _on_groups(config: Mapping[str, str], prefix: str, role: str, variants: Sequence[str]) -> list[str]:
    wanted: dict[str, set[str]] = {}
    for group in GROUPS[role]:
        if not group.name:
            continue  # the right to look at all of them
        for name in [group.name + variant for variant in variants[:1]] if group.is_prefix else [group.name]:
            wanted[full_name(prefix, name)] = set(group.operations)
    if not wanted:
        return []
    try:
        answers = described(config, list(wanted), with_operations=True)
    except KafkaException:
        return []  # no answer is no evidence
    missing = []
    for name, found in answers.items():
        held = found.operations if isinstance(found, Group) else set[str]() if found.code() in DENIED else None
        can = {right.title().replace("_", "") for right in held or ()}  # ALTER_CONFIGS -> AlterConfigs
        lacks = sorted(wanted[name] - can) if held is not None else []
        missing += [f"{', '.join(map(_shouted, lacks))} on group {name}"] if lacks else []
    return missing


def _shouted(operation: str) -> str:
    return "ALTER_CONFIGS" if operation == "AlterConfigs" else operation.upper()


def _on_transactions(config: Mapping[str, str], prefix: str, role: str) -> list[str]:
    missing = []
    for name in TRANSACTIONS.get(role, ()):
        transactional_id = full_name(prefix, name if name.endswith(".") else f"{name}.") + PROBE
        try:
            # it would print a refusal that is reported below
            producer = Producer({**config, "transactional.id": transactional_id, "log_level": "0"})
            producer.init_transactions(ANSWER_LIMIT_S)
        except KafkaException as failure:
            if failure.args[0].code() in DENIED:
                missing.append(f"WRITE on transactional ids that begin with {full_name(prefix, name)}")
    return missing
