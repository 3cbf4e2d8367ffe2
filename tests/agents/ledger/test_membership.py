"""What a member of a group waits for before it is ready."""

import pytest

from agents.ledger.membership import STANDBY_S, Membership


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def member(clock: Clock) -> Membership:
    return Membership(clock)


def test_it_waits_for_the_broker_then_partitions_then_what_it_must_read(member: Membership) -> None:
    seen = [member.not_ready()]
    member.has(0)
    seen.append(member.not_ready())
    member.reads("the end of results, partition 3")
    seen.append(member.not_ready())
    member.has(1)
    assert seen == ["waits for the broker", "waits for partitions", "waits for the end of results, partition 3"]
    assert member.not_ready() == ""


def test_a_spare_member_is_ready_after_a_while_so_that_a_rollout_does_not_hang(
    member: Membership, clock: Clock
) -> None:
    member.has(0)
    clock.now_s = STANDBY_S
    assert member.not_ready() == "waits for partitions"
    clock.now_s = STANDBY_S + 1
    assert member.not_ready() == ""


def test_a_spare_member_that_gains_a_partition_is_not_ready_until_it_has_read(member: Membership, clock: Clock) -> None:
    member.has(0)
    clock.now_s = STANDBY_S + 1
    member.reads("results")
    assert member.not_ready() == "waits for results"


def test_a_broken_session_is_not_ready(member: Membership) -> None:
    member.has(2)
    member.leaves()
    assert member.not_ready() == "waits for the broker"
