"""Rights of least privilege for each role and client, from `schemas/access.py`: as rows, as commands, or created."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from schemas.access import ALL, GROUPS, OF_VARIANTS, OPERATOR, SEES_LIMITS, TRANSACTIONS, WHO, read_by, written_by
from schemas.errors import PochadeError, Unknown
from schemas.topics import full_name
from streams.kafka.clients import ANSWER_LIMIT_S, client_config
from streams.settings import Settings

CLUSTER_NAME = "kafka-cluster"  # Kafka's own name for the one resource of its kind
DOCTOR_TOPICS = "doctor-"  # `pochade doctor` makes one for a moment, to ask the brokers' time


class Resource(StrEnum):
    """The kind of resource that a right is about, as `kafka-acls.sh` names it."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


KINDS = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
    Resource.CLUSTER: ResourceType.BROKER,  # the same number
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """Operations that one principal may do on one name, or on all names that begin with it."""

    who: str
    principal: str  # User:NAME
    resource: Resource
    pattern: str  # literal | prefixed
    name: str
    operations: tuple[str, ...]  # as Kafka spells them: Read, Write, Describe ...


def principals(named: Iterable[str], prefix: str) -> dict[str, str]:
    """Role -> principal: `role=User:NAME` as given, else User:PREFIX-role.

    Raises PochadeError: not of that form, or an unknown role or client.
    """
    found = {who: f"User:{prefix}-{who}" for who in WHO}
    for each in named:
        who, equals, principal = each.partition("=")
        if who not in found:
            raise Unknown("role or client", who, WHO)
        if not equals or not principal.startswith("User:") or principal == "User:":
            raise PochadeError(f"{each!r:.80} is not ROLE=User:NAME, such as router=User:router")
        found[who] = principal
    return found


def acls(prefix: str, principal_of: Mapping[str, str], of: Sequence[str] = WHO) -> list[Acl]:
    """Return the rights that each role or client needs on topics, groups and transactional ids, and no more.

    Raises Unknown: no role or client has this name.
    """
    found: list[Acl] = []
    for who in of:
        if who not in WHO:
            raise Unknown("role or client", who, WHO)

        def row(resource: Resource, name: str, *operations: str, is_prefix: bool = False, by: str = who) -> None:
            pattern = "prefixed" if is_prefix else "literal"
            whole = name if resource is Resource.CLUSTER else full_name(prefix, name)
            principal = principal_of[by]
            found.append(
                Acl(who=by, principal=principal, resource=resource, pattern=pattern, name=whole, operations=operations)
            )

        _topic_rows(who, row)
        for group in GROUPS[who]:
            row(Resource.GROUP, group.name, *group.operations, is_prefix=group.is_prefix)
        if who in SEES_LIMITS:
            row(Resource.CLUSTER, CLUSTER_NAME, "DescribeConfigs")
        for name in TRANSACTIONS.get(who, ()):
            row(Resource.TRANSACTIONAL_ID, name, "Write", is_prefix=True)
    return found


def _topic_rows(who: str, row: Callable[..., None]) -> None:
    # every client of ours looks whether its topics are there and as the table says, before it begins
    row(Resource.TOPIC, ALL, "Describe", "DescribeConfigs", is_prefix=True)
    if who == OPERATOR:
        row(Resource.TOPIC, ALL, "Create", is_prefix=True)
        row(Resource.TOPIC, DOCTOR_TOPICS, "Write", "Delete", is_prefix=True)
    reads, writes = read_by(who), written_by(who)
    for topic in dict.fromkeys((*reads, *writes)):
        operations = [op for op, topics in (("Read", reads), ("Write", writes)) if topic in topics]
        row(Resource.TOPIC, topic, *operations, is_prefix=topic in OF_VARIANTS)


def commands(rows: Sequence[Acl], bootstrap: str) -> list[str]:
    """Return `kafka-acls.sh` commands, one for each principal, kind of resource, pattern and set of operations."""
    joined: dict[tuple[str, str, str, tuple[str, ...]], list[str]] = {}
    for each in rows:
        joined.setdefault((each.principal, each.resource, each.pattern, each.operations), []).append(each.name)
    lines = []
    for (principal, resource, pattern, operations), names in joined.items():
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--command-config", "admin.properties", "--add"]
        words += ["--allow-principal", principal]
        words += [part for operation in operations for part in ("--operation", operation)]
        if resource == Resource.CLUSTER:
            words += ["--cluster"]
        else:
            words += [part for name in names for part in (f"--{resource}", name)]
            words += ["--resource-pattern-type", pattern]
        lines.append(shlex.join(words))
    return lines


def create_acls(settings: Settings, rows: Sequence[Acl]) -> int:
    """Create these on the cluster as the user of the settings; those that exist stay. How many there are of them then.

    Raises PochadeError: the cluster refuses, mostly because this user may not ALTER it.
    """
    # once each: several roles may share a user
    bindings = list(dict.fromkeys(binding for row in rows for binding in _bindings(row)))
    client = AdminClient(client_config(settings))  # must live until the answers are here
    for future in client.create_acls(bindings, request_timeout=ANSWER_LIMIT_S).values():
        try:
            future.result(2 * ANSWER_LIMIT_S)
        except KafkaException as failure:
            raise PochadeError(
                f"the cluster refused to create an ACL: {failure.args[0].str()}. It needs an authorizer "
                "(authorizer.class.name), and this user ALTER on the cluster, or to be among super.users"
            ) from None
    return len(bindings)


def _bindings(row: Acl) -> list[AclBinding]:
    pattern = ResourcePatternType[row.pattern.upper()]
    return [
        AclBinding(
            KINDS[row.resource], row.name, pattern, row.principal, "*", _operation(name), AclPermissionType.ALLOW
        )
        for name in row.operations
    ]


def _operation(name: str) -> AclOperation:
    return AclOperation[re.sub("(?<=[a-z])(?=[A-Z])", "_", name).upper()]  # AlterConfigs -> ALTER_CONFIGS
