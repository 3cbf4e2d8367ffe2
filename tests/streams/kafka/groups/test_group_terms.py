"""Which protocol groups speak, and the timeouts that come nearest to the wanted ones."""

import pytest

from streams.kafka.groups.group_terms import (
    STOCK,
    Limits,
    Protocol,
    Timeouts,
    Trial,
    chosen,
    classic_limits_in,
    describe,
    limits_in,
    nearest,
    wanted_timeouts,
)

STOCK_BROKER = {  # as Kafka 4.3.1 gives them
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.max.session.timeout.ms": "60000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.max.heartbeat.interval.ms": "15000",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
}


@pytest.mark.parametrize(
    ("asked", "knows", "trial", "protocol"),
    [
        ("auto", True, Trial.JOINED, Protocol.CONSUMER),
        ("auto", True, Trial.UNKNOWN, Protocol.CONSUMER),  # no right to join the group of the trial
        ("auto", True, Trial.REFUSED, Protocol.CLASSIC),  # Kafka 4 with group.coordinator.rebalance.protocols=classic
        ("auto", False, Trial.REFUSED, Protocol.CLASSIC),  # Kafka 3
        ("auto", False, Trial.UNKNOWN, Protocol.CLASSIC),  # Redpanda answers nothing
        ("auto", False, Trial.JOINED, Protocol.CONSUMER),  # no right to see the group's settings
        ("classic", True, Trial.JOINED, Protocol.CLASSIC),
        ("consumer", False, Trial.REFUSED, Protocol.CONSUMER),
    ],
)
def test_the_protocol_is_the_one_asked_for_or_the_newest_that_the_cluster_speaks(
    asked: str, knows: bool, trial: Trial, protocol: Protocol
) -> None:
    assert chosen(asked, knows, trial) is protocol


def test_a_stock_broker_gets_its_shortest_session_with_its_shortest_beat() -> None:
    assert nearest(wanted_timeouts(6000), limits_in(STOCK_BROKER)) == Timeouts(45_000, 5_000)


def test_a_session_within_the_limits_stays_and_only_its_beat_is_brought_within() -> None:
    limits = Limits((1_000, 60_000), (2_000, 15_000))
    assert nearest(wanted_timeouts(9_000), limits) == Timeouts(9_000, 2_000)
    assert nearest(wanted_timeouts(45_000), limits) == Timeouts(45_000, 5_000)


def test_a_session_above_the_limits_comes_down_to_them() -> None:
    assert nearest(Timeouts(90_000, 10_000), STOCK) == Timeouts(60_000, 6_666)


def test_limits_that_a_broker_does_not_tell_are_taken_for_kafkas_own() -> None:
    assert limits_in({}) == STOCK
    assert limits_in({"group.consumer.min.session.timeout.ms": "30000"}).session_ms == (30_000, 60_000)
    assert classic_limits_in(STOCK_BROKER).session_ms == classic_limits_in({}).session_ms == (6_000, 1_800_000)


def test_only_a_session_longer_than_wanted_is_worth_a_warning() -> None:
    assert describe(6_000, Timeouts(6_000, 666), "limits") == ""
    assert describe(90_000, Timeouts(60_000, 6_000), "limits") == ""
    assert "after 45 s, not after kafka.session_timeout_ms = 6 s" in describe(6_000, Timeouts(45_000, 5_000), "limits")
    assert "when the cluster says" in describe(6_000, None, "denied")
