"""The embedded broker's ports and properties."""

import dataclasses
import socket

from streams.broker.config import properties, render
from streams.broker.node import HOST, Ports, free_ports


def test_free_ports_are_three_different_ones_that_can_be_bound() -> None:
    ports = free_ports()
    assert len(set(dataclasses.astuple(ports))) == 3
    assert ports.all_free()


def test_ports_are_not_free_while_somebody_listens_on_one() -> None:
    with socket.create_server((HOST, 0)) as listener:
        taken = dataclasses.replace(free_ports(), registry=listener.getsockname()[1])
        assert not taken.all_free()


def test_only_the_loopback_address_is_bound_and_advertised() -> None:
    reported = properties(Ports(broker=1, controller=2, registry=3), "/data")
    assert reported["listeners"] == "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert reported["advertised.listeners"] == "PLAINTEXT://127.0.0.1:1"
    assert reported["log.dirs"] == "/data"


def test_topics_are_never_created_by_accident() -> None:
    assert properties(free_ports(), "/data")["auto.create.topics.enable"] == "false"


def test_rendered_properties_escape_backslashes_for_java() -> None:
    assert render({"log.dirs": "C:\\data", "node.id": "1"}) == "log.dirs=C:\\\\data\nnode.id=1\n"
