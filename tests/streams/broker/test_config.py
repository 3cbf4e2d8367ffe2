"""The embedded broker's ports and properties."""

import dataclasses
import socket

from streams.broker.config import member_properties, properties, render
from streams.broker.node import HOST, LASTING, Ports, free_ports, lasting_ports


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


def test_nodes_of_a_cluster_share_their_voters_and_keep_three_copies_of_everything() -> None:
    ports = lasting_ports(3)
    reported = {number: member_properties(number, ports, f"/data-{number}") for number in ports}
    assert [each["node.id"] for each in reported.values()] == ["1", "2", "3"]
    assert {each["controller.quorum.voters"] for each in reported.values()} == {
        ",".join(f"{number}@127.0.0.1:{each.controller}" for number, each in ports.items())
    }
    for each in reported.values():
        assert {value for name, value in each.items() if name.endswith("replication.factor")} == {"3"}
        assert each["min.insync.replicas"] == each["transaction.state.log.min.isr"] == "2"


def test_a_cluster_of_one_node_keeps_the_one_copy_that_it_can() -> None:
    reported = member_properties(1, lasting_ports(1), "/data")
    assert (reported["default.replication.factor"], reported["min.insync.replicas"]) == ("1", "1")


def test_lasting_ports_are_free_different_and_given_to_no_outgoing_connection() -> None:
    ports = lasting_ports(3)
    numbers = [port for each in ports.values() for port in dataclasses.astuple(each)]
    assert len(set(numbers)) == 9
    assert set(numbers) <= set(LASTING)
    assert all(each.all_free() for each in ports.values())
