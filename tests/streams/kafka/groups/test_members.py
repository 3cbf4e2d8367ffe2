"""A member of a group that owns nothing: whether the cluster still counts on it."""

from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from schemas.errors import PochadeError
from streams.kafka.groups import members
from streams.kafka.groups.members import IdleMember, MembershipLost, is_lost
from streams.settings import load
from tests.patience import Clock

SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1", "session_timeout_ms": 6000}})
ME = cast(Consumer, SimpleNamespace(memberid=lambda: "me"))


@pytest.mark.parametrize(
    ("partitions", "lost"),
    [
        ({}, True),  # the group has no member
        ({"another": 4}, True),  # it does not know this one
        ({"me": 0}, True),  # it knows this one, and has given nobody anything
        ({"me": 4}, True),  # it has given this one partitions, which never arrived
        ({"me": 0, "another": 4}, False),  # a spare
    ],
)
def test_a_member_without_partitions_is_lost_unless_another_has_them_all(
    partitions: dict[str, int], lost: bool
) -> None:
    assert is_lost("me", partitions) is lost


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What the cluster says of the group: member -> partitions."""
    found: dict[str, int] = {}
    monkeypatch.setattr(IdleMember, "_is_lost", lambda _self, consumer: is_lost(consumer.memberid(), found))
    return found


def test_a_member_joins_anew_when_the_cluster_has_not_counted_on_it_twice(given: dict[str, int]) -> None:
    clock = Clock()
    idle = IdleMember(SETTINGS, "group", clock)
    given["another"] = 0
    for clock.now_s in (0.0, 17.0, 19.0, 30.0):
        idle.check(ME, 0, is_served=False)
    clock.now_s = 40.0
    with pytest.raises(MembershipLost, match="no partition for this member for 36 s"):
        idle.check(ME, 0, is_served=False)


def test_a_spare_member_and_one_that_is_given_partitions_meanwhile_stay(given: dict[str, int]) -> None:
    clock = Clock()
    idle = IdleMember(SETTINGS, "group", clock)
    given.update({"me": 0, "another": 4})
    for clock.now_s in range(0, 200, 10):
        idle.check(ME, 0, is_served=False)
    given.clear()
    for clock.now_s in range(200, 400, 10):
        idle.check(ME, 0 if clock.now_s % 30 else 1, is_served=True)


def test_a_cluster_that_does_not_answer_is_no_reason_to_join_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def unanswered(*_: object) -> dict[str, int]:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, ""))

    monkeypatch.setattr(members, "members_of", unanswered)
    clock = Clock()
    idle = IdleMember(SETTINGS, "group", clock)
    for clock.now_s in (0.0, 20.0, 40.0, 60.0):
        idle.check(ME, 0, is_served=False)


def test_a_cluster_that_has_just_begun_is_asked_again_for_the_members_of_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.GROUP_ID_NOT_FOUND]

    def described(*_: object) -> dict[str, int]:
        raise KafkaException(KafkaError(answers.pop(0), ""))

    monkeypatch.setattr(members, "members_of", described)
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert members.has_members(SETTINGS, "group") is False
    answers.append(KafkaError.COORDINATOR_NOT_AVAILABLE)
    monkeypatch.setattr(members, "SETTLES_S", 0.0)
    with pytest.raises(PochadeError, match="members of group: COORDINATOR_NOT_AVAILABLE"):
        members.has_members(SETTINGS, "group")
