"""Which roles serve, by the members of their groups."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException

from replay.load import presence
from schemas.errors import PochadeError
from streams.kafka.groups import members
from streams.settings import Kafka, Settings

SETTINGS = Settings(kafka=Kafka(bootstrap_servers="nowhere:1"))


class Member(NamedTuple):
    """As the client describes it."""

    member_id: str
    client_id: str = "pochade"
    host: str = "/127.0.0.1"
    assignment: SimpleNamespace = SimpleNamespace(topic_partitions=())


class Group(NamedTuple):
    """As the client describes it."""

    members: list[Member]


def answering(monkeypatch: pytest.MonkeyPatch, answer: Group | Exception) -> None:
    class Client:
        def __init__(self, _config: object) -> None: ...

        def describe_consumer_groups(self, names: list[str], **_limit: float) -> "dict[str, Future[Any]]":
            found = {name: Future[Any]() for name in names}
            for future in found.values():
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
            return found

    monkeypatch.setattr(members, "AdminClient", Client)


def test_a_role_is_absent_where_its_group_has_no_member(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, Group([Member("a"), Member("b")]))
    assert set(presence.members(SETTINGS).values()) == {2}
    assert presence.absent(presence.members(SETTINGS)) == []
    answering(monkeypatch, Group([]))
    assert presence.absent(presence.members(SETTINGS)) == ["classifier", "router", "discriminator", "ledger"]


def test_a_group_that_may_not_be_looked_at_counts_as_served(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
    assert presence.absent(presence.members(SETTINGS)) == []


def test_a_broker_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, TimeoutError())
    with pytest.raises(PochadeError, match=r"did not describe group pochade\.classifier within 15 s: is it overloaded"):
        presence.members(SETTINGS)
