"""Groups are described by a process of its own, whose end is an answer that does not come."""

import subprocess
from typing import Any

import pytest
from confluent_kafka import KafkaException

from streams.kafka.groups import description
from streams.kafka.groups.description import described


@pytest.mark.parametrize("status", [-6, 1])
def test_a_process_that_librdkafka_ends_is_an_answer_that_does_not_come(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    def ended(command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(command, status, "", "Assertion `eonce->refcnt > 0' failed")

    monkeypatch.setattr("subprocess.run", ended)
    with pytest.raises(KafkaException, match=r"no broker described pochade\.router in time"):
        described({}, ["pochade.router"])


def test_nothing_is_waited_for_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description, "START_S", 0.0)
    with pytest.raises(KafkaException, match=r"no broker described pochade\.router in time"):
        described({"bootstrap.servers": "127.0.0.1:9"}, ["pochade.router"], limit_s=0.1)
