"""The command line of the Docker fallback (Docker itself is not run by the tests)."""

import pathlib

from streams.broker.docker import IMAGE, container_name, environment, run_command
from streams.broker.node import Ports

PORTS = Ports(broker=9092, controller=9093, registry=8081)


def test_the_container_publishes_only_the_brokers_port_on_loopback_and_keeps_data_in_a_volume() -> None:
    command = run_command("box", PORTS, "cluster")
    assert command[:8] == ["run", "-d", "--name", "box", "-p", "127.0.0.1:9092:9092", "-v", "box:/var/lib/kafka/data"]
    assert command[-1] == IMAGE
    variables = {command[i + 1] for i, part in enumerate(command) if part == "-e"}
    assert {"CLUSTER_ID=cluster", "KAFKA_NODE_ID=1", "KAFKA_AUTO_CREATE_TOPICS_ENABLE=false"} <= variables
    assert "KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093" in variables
    assert "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:9092" in variables


def test_each_home_has_a_container_of_its_own() -> None:
    one, other = (container_name(pathlib.Path(home)) for home in ("/a/kafka", "/b/kafka"))
    assert one != other == container_name(pathlib.Path("/b/kafka"))


def test_property_names_become_variables() -> None:
    assert environment({"group.share.min.session.timeout.ms": "1"}) == {"KAFKA_GROUP_SHARE_MIN_SESSION_TIMEOUT_MS": "1"}
