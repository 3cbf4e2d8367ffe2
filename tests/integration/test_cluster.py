"""A cluster as pochade finds it: configured, unreachable, closed; its topics and groups."""

import os
import pathlib
import time

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from schemas.errors import PochadeError
from schemas.topics import RESULTS, TABLE
from streams.broker import address, embedded, probe
from streams.broker.node import HOST, free_ports
from streams.kafka import clients
from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from tests.integration.calling import pochade, status
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker


def test_a_configured_cluster_is_used_and_nothing_is_started_or_stopped(
    broker_home: pathlib.Path, broker: address.Address, tmp_path: pathlib.Path
) -> None:
    prefix = f"foreign-{os.getpid()}"
    variables = {"POCHADE_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap, "POCHADE_KAFKA__PREFIX": prefix}
    up = pochade(tmp_path, "up", **variables)
    assert (up.returncode, up.stderr) == (0, "")
    assert f"{len(TABLE)} created" in up.stdout
    facts = status(tmp_path, **variables)
    assert (facts["broker"], facts["bootstrap_servers"]) == ("configured", broker.bootstrap)
    assert (facts["topics"], facts["pid"], facts["registry_url"]) == (len(TABLE), None, None)
    assert "nothing to stop" in pochade(tmp_path, "down", **variables).stdout
    assert list(tmp_path.iterdir()) == []
    assert status(broker_home)["broker"] == "running"


def test_an_unreachable_cluster_is_one_line_with_its_address_soon(tmp_path: pathlib.Path) -> None:
    address = f"{HOST}:{free_ports().broker}"
    begun = time.monotonic()
    done = pochade(tmp_path, "up", POCHADE_KAFKA__BOOTSTRAP_SERVERS=address)
    assert time.monotonic() - begun < 30
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: no Kafka answers at {address} within 5 s")
    assert "POCHADE_KAFKA__BOOTSTRAP_SERVERS" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("protocol", "reason"),
    [("SSL", "SSL"), ("SASL_PLAINTEXT", "SASL")],
)
def test_a_cluster_that_does_not_let_us_in_says_why(
    broker: address.Address, tmp_path: pathlib.Path, protocol: str, reason: str
) -> None:
    properties = {"security.protocol": protocol}
    if protocol != "SSL":
        properties |= {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
    settings = load({"home": tmp_path, "kafka": {"bootstrap_servers": broker.bootstrap, "properties": properties}})
    with pytest.raises(probe.Unreachable, match=reason):
        embedded.ensure(settings)


def test_topics_are_created_once_with_the_tables_partitions_and_configuration(settings: Settings) -> None:
    created = create_topics(settings, ["tiny-light"])
    assert len(created) == len(TABLE) + 2  # jobs of the variant, and those that wait
    assert clients.topic_name(settings, "jobs.tiny-light.v1") in created
    assert create_topics(settings, ["tiny-light"]) == []
    more = [clients.topic_name(settings, f"{kind}.tiny-heavy.v1") for kind in ("jobs", "waiting")]
    assert create_topics(settings, ["tiny-light", "tiny-heavy"]) == more
    metadata = probe.probe(clients.client_config(settings), 10).topics
    for topic in TABLE:
        assert len(metadata[clients.topic_name(settings, topic.name)].partitions) == topic.partitions
    assert len(metadata[created[0]].partitions) > 0
    results = next(topic for topic in TABLE if topic.name == RESULTS)
    resource = ConfigResource(ResourceType.TOPIC, clients.topic_name(settings, RESULTS))
    client = AdminClient(clients.client_config(settings))
    reported = client.describe_configs([resource])[resource].result(timeout=PATIENCE_S)
    assert {name: reported[name].value for name in results.config} == results.config


def test_what_the_cluster_refuses_says_what_to_do(settings: Settings) -> None:
    with pytest.raises(PochadeError, match=r"refused to create topic .*jobs\.not a name.*Grant CREATE"):
        create_topics(settings, ["not a name"])
