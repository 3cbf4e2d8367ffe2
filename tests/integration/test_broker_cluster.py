"""Three embedded brokers as one cluster: three copies of every record, and one of them killed under load."""

import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from agents.runtime.assembly import ledger_of
from replay.verify.audit.figures import verdict
from replay.verify.audit.reading import audit
from replay.verify.chaos.brokers import BrokerCluster
from schemas.record import Outgoing
from schemas.topics import OUTCOMES, PROMPTS, RESULTS, TABLE
from streams.codec.avro import encode
from streams.kafka.clients import client_config, topic_name
from streams.kafka.consumers import snapshot
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.builders import a_request, an_outcome
from tests.integration.clusters import leader_of, on, running_cluster
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

REQUESTS, BEFORE = 300, 100  # BEFORE of them have ended when a broker is killed


@pytest.fixture(scope="module")
def cluster(new_home: Callable[[], pathlib.Path]) -> Iterator[BrokerCluster]:
    with running_cluster(new_home) as running:
        yield running


@pytest.fixture(scope="module")
def deployment(cluster: BrokerCluster, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    settings = on(cluster, tmp_path_factory.mktemp("deployment"))
    create_topics(settings, ["light", "heavy"])
    return settings


def test_every_topic_has_three_copies_two_of_which_must_hold_a_record(
    cluster: BrokerCluster, deployment: Settings
) -> None:
    client = AdminClient(client_config(deployment))
    names = [topic_name(deployment, topic.name) for topic in TABLE]
    poll_until(lambda: set(names) <= set(client.list_topics(timeout=PATIENCE_S).topics), "all topics known")
    found = client.list_topics(timeout=PATIENCE_S).topics
    assert {len(part.replicas) for name in names for part in found[name].partitions.values()} == {3}
    asked = client.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    assert {answer.result(PATIENCE_S)["min.insync.replicas"].value for answer in asked.values()} == {"2"}
    assert leader_of(cluster, topic_name(deployment, OUTCOMES), 0) in cluster.nodes
    assert cluster.controller() in cluster.nodes


def test_a_broker_that_is_killed_costs_no_request_and_doubles_none(
    cluster: BrokerCluster, deployment: Settings
) -> None:
    stopping, producer = threading.Event(), KafkaRecordProducer(deployment)
    ledger = threading.Thread(target=ledger_of(deployment, producer).run, args=(stopping,))
    ledger.start()
    try:
        ids = [f"r-{number}" for number in range(REQUESTS)]
        ask(producer, ids[:BEFORE])
        poll_until(lambda: ended(deployment) == BEFORE, "the results of before")
        victim = leader_of(cluster, topic_name(deployment, RESULTS), 0)
        cluster.kill(victim)
        ask(producer, ids)  # those of before said again, as a role that died says them again
        poll_until(lambda: ended(deployment) >= REQUESTS, "the results of all")
        assert victim not in cluster.serving
    finally:
        stopping.set()
        ledger.join()
        producer.close()
    found = audit(deployment, asked=ids, with_images=False)
    assert verdict(found.figures) is None
    assert (found.figures.open, found.figures.outcomes) == (0, {"FAILED": REQUESTS})


def ask(producer: KafkaRecordProducer, ids: Sequence[str]) -> None:
    """Prompts, and how somebody says that they ended."""
    for name in ids:
        prompt, outcome = encode(a_request(request_id=name)), encode(an_outcome(request_id=name))
        producer.send(Outgoing(topic=PROMPTS, key=name.encode(), value=prompt))
        producer.send(Outgoing(topic=OUTCOMES, key=name.encode(), value=outcome))


def ended(settings: Settings) -> int:
    """Results that are there now."""
    return len(snapshot.past(settings, [RESULTS]))
