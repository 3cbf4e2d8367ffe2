"""Creates ACLs on the cluster."""

import re
from collections.abc import Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from schemas.errors import PochadeError
from streams.kafka.clients import ANSWER_LIMIT_S, client_config
from streams.security.acls import Acl, Resource
from streams.settings import Settings

KINDS = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
    Resource.CLUSTER: ResourceType.BROKER,  # the same number
}


def create_acls(settings: Settings, rows: Sequence[Acl]) -> int:
    """Create them as the user of these settings; those that exist stay. How many there are of them then.

    Raises:
        PochadeError: the cluster refuses, mostly because this user may not ALTER it.
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
