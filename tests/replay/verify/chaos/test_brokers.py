"""The ports and properties of a cluster of several embedded brokers."""

import dataclasses

from replay.verify.chaos.brokers import lasting_ports, member_properties
from streams.broker.node import LASTING


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
