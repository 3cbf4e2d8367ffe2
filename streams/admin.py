"""Topics on the cluster: what must exist before a role may run."""

from collections.abc import Sequence
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from schemas.errors import PochadeError
from schemas.topics import Topic, full_name, jobs_topic, table
from streams import broker, broker_probe
from streams.settings import Settings

ANSWER_LIMIT_S = 15.0


def client_config(settings: Settings) -> dict[str, str]:
    """Where every client begins: address, quick reconnects, then `[kafka.properties]` untouched.

    Raises:
        PochadeError: no broker is configured and none runs.
    """
    return broker_probe.client_config(broker.bootstrap_servers(settings), settings.kafka.properties)


def topic_name(settings: Settings, name: str) -> str:
    """A topic of the table, as this deployment calls it."""
    return full_name(settings.kafka.prefix, name)


def own_topics(settings: Settings) -> list[str]:
    """Names of this deployment's topics that exist.

    Raises:
        Unreachable: the cluster does not answer.
    """
    found = broker_probe.probe(client_config(settings), ANSWER_LIMIT_S).topics
    return sorted(name for name in found if name.startswith(settings.kafka.prefix + "."))


def create_topics(settings: Settings, variants: Sequence[str] = ()) -> list[str]:
    """Create what is missing of the topic table and of the variants' job topics; the names created.

    Existing topics stay as they are. On the embedded broker one copy is kept, elsewhere as many as the cluster says.

    Raises:
        PochadeError: which topic the cluster refused, why, and what to do.
    """
    exists = set(own_topics(settings))
    wanted: list[Topic] = [
        *table(settings.kafka.flow_partitions),
        *(jobs_topic(variant, settings.kafka.jobs_partitions) for variant in variants),
    ]
    missing = {topic_name(settings, topic.name): topic for topic in wanted}
    missing = {name: topic for name, topic in missing.items() if name not in exists}
    if not missing:
        return []
    copies = -1 if broker.is_foreign(settings) else 1
    new = [NewTopic(name, topic.partitions, copies, config=topic.config) for name, topic in missing.items()]
    client = _admin(settings)  # must live until the answers are here
    futures = client.create_topics(new, operation_timeout=ANSWER_LIMIT_S, request_timeout=ANSWER_LIMIT_S)
    created = []
    for name, future in futures.items():
        failure = _failure(future)
        if failure is None:
            created.append(name)
        elif failure.code() != KafkaError.TOPIC_ALREADY_EXISTS:  # somebody else made it meanwhile
            topic = missing[name]
            raise PochadeError(
                f"the cluster refused to create topic {name}: {failure.str()}. Grant CREATE on "
                f"{settings.kafka.prefix}.* or have it created with {topic.partitions} partitions and {topic.config}"
            )
    return sorted(created)


def _admin(settings: Settings) -> AdminClient:
    return AdminClient(client_config(settings))


def _failure(future: "Future[None]") -> KafkaError | None:
    try:
        future.result(timeout=2 * ANSWER_LIMIT_S)
    except KafkaException as failure:
        return failure.args[0]
    return None
