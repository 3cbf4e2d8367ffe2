"""Groups are described by a process of its own, whose end is an answer that does not come."""

import subprocess
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.kafka.groups import description
from streams.kafka.groups.description import described


@pytest.mark.parametrize("status", [-6, 1])
def test_a_process_that_librdkafka_ends_is_an_answer_that_does_not_come(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    def ended(command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(command, status, "", "Assertion `eonce->refcnt > 0' failed")

    monkeypatch.setattr("subprocess.run", ended)
    with pytest.raises(KafkaException, match=r"no broker described pochade\.router in time; Assertion"):
        described({}, ["pochade.router"])


def test_nothing_is_waited_for_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "START_S", 0.0)
    with pytest.raises(KafkaException, match=r"no broker described pochade\.router in time"):
        described({"bootstrap.servers": "127.0.0.1:9"}, ["pochade.router"], limit_s=0.1)


def test_a_group_that_is_not_described_in_time_is_no_answer_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Librdkafka reports it of the group, as it reports a refusal."""

    class Client:
        def __init__(self, _config: object) -> None: ...

        def describe_consumer_groups(self, groups: list[str], **_: Any) -> "dict[str, Future[Any]]":
            found = {name: Future[Any]() for name in groups}
            found["late"].set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
            return found

    monkeypatch.setattr("confluent_kafka.admin.AdminClient", Client)
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        description._ask({}, ["late"], False, 1.0)
