"""Who reads a topic for a role, and how many records its group has not committed: asked without joining it."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from schemas.errors import PochadeError
from schemas.topics import full_name
from streams.kafka.clients import ANSWER_LIMIT_S, client_config
from streams.kafka.offsets import unread
from streams.operator.deployment_checks import READS, Attendance
from streams.settings import Settings

DENIED = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


def attendance(settings: Settings, role: str) -> Attendance:
    """Of a role whose group is PREFIX.ROLE.

    Raises:
        PochadeError: the cluster does not answer, or refuses to tell how far the group has come.
    """
    prefix = settings.kafka.prefix
    group, topic = f"{prefix}.{role}", full_name(prefix, READS[role])
    try:
        spans = unread(settings, topic, group)
    except KafkaException as failure:
        raise PochadeError(
            f"cannot see how far {group} has come on {topic}: {failure.args[0].str()}; grant DESCRIBE on both"
        ) from None
    return Attendance(_members(settings, group), sum(span.end - span.start for span in spans.values()))


def _members(settings: Settings, group: str) -> int | None:
    client = AdminClient(client_config(settings))  # must live until the answer is here
    future = client.describe_consumer_groups([group], request_timeout=ANSWER_LIMIT_S)[group]
    try:
        return len(future.result(2 * ANSWER_LIMIT_S).members)
    except KafkaException as failure:
        error = failure.args[0]
        if error.code() in DENIED:
            return None
        if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return 0
        raise PochadeError(f"cannot see the members of {group}: {error.str()}") from None
