"""Which roles serve, by the members of their groups."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from replay.load import presence
from schemas.errors import PochadeError
from streams.kafka.groups.description import Group, Member
from streams.settings import Kafka, Settings

MEMBER = Member("pochade", "127.0.0.1", 1)
SETTINGS = Settings(kafka=Kafka(bootstrap_servers="nowhere:1"))


def answering(monkeypatch: pytest.MonkeyPatch, answer: Group | KafkaError | KafkaException) -> None:
    def described(_config: object, groups: list[str]) -> dict[str, Group | KafkaError]:
        if isinstance(answer, KafkaException):
            raise answer
        return dict.fromkeys(groups, answer)

    monkeypatch.setattr(presence, "described", described)


def test_a_role_is_absent_where_its_group_has_no_member(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, Group({"a": MEMBER, "b": MEMBER}, None))
    assert set(presence.members(SETTINGS).values()) == {2}
    assert presence.absent(presence.members(SETTINGS)) == []
    answering(monkeypatch, Group({}, None))
    assert presence.absent(presence.members(SETTINGS)) == ["classifier", "router", "discriminator", "ledger"]


def test_a_group_that_may_not_be_looked_at_counts_as_served(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert presence.absent(presence.members(SETTINGS)) == []


def test_a_broker_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    with pytest.raises(PochadeError, match=r"did not describe pochade\.classifier, .* within 15 s: is it overloaded"):
        presence.members(SETTINGS)
