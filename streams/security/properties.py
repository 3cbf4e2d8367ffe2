"""Whether librdkafka, and Faust where a role uses it, can follow `[kafka.properties]`: checked before clients open."""

import re
from collections.abc import Collection

from confluent_kafka import Consumer, KafkaException, Producer

from schemas.errors import PochadeError
from streams.security.secrets import with_secrets
from streams.security.security import FAUST_ROLES, refuse_decided, security_of
from streams.settings import Settings

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}


def check_properties(settings: Settings, roles: Collection[str] = FAUST_ROLES) -> None:
    """Construct clients with them, and ask whether Faust can follow them where one of these roles uses it.

    Raises:
        PochadeError: which property is unknown, has a wrong value, lacks another, is set by the roles themselves, or
            has no counterpart for Faust; never the value: it may be secret.
    """
    if not settings.kafka.properties:
        return
    properties = with_secrets(settings.kafka.properties)
    for name, value in properties.items():
        try:
            Producer({**NOWHERE, name: value})
        except (KafkaException, ValueError, TypeError) as failure:
            why = _reason(failure)
            if "No such configuration property" in why:
                raise PochadeError(
                    f"kafka.properties.{name}: librdkafka has no such property; its CONFIGURATION.md has the names; "
                    "Java's own (ssl.truststore..., sasl.jaas.config) are spelt otherwise there"
                ) from None
            if name in why or "Invalid value" in why:
                raise PochadeError(f"kafka.properties.{name}: librdkafka refuses it: {_hidden(why, value)}") from None
    refuse_decided(properties)
    if FAUST_ROLES & set(roles):
        security_of(properties)
    try:  # one may need another, such as SASL its mechanism
        Producer({**NOWHERE, **properties})
        Consumer({**NOWHERE, "group.id": "check", **properties}).close()
    except (KafkaException, ValueError, TypeError) as failure:
        why = _reason(failure)
        for value in properties.values():
            why = _hidden(why, value)
        raise PochadeError(f"librdkafka refuses the settings under kafka.properties: {why}") from None


def _reason(failure: Exception) -> str:
    first = failure.args[0] if failure.args else failure
    return str(first.str() if hasattr(first, "str") else first)


def _hidden(text: str, value: str) -> str:
    return re.sub(re.escape(value), "...", text) if len(value) > 3 else text
