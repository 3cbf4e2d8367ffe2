# ruff: noqa: ARG002  the client's shapes
"""Topics on clusters as operators have them: copies, and sizes that are not allowed, by a scripted admin client."""

import logging
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic

from schemas.errors import PochadeError
from schemas.topics import RESULTS, TABLE
from streams.kafka import topics as kafka_topics
from streams.settings import load

SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})


class Cluster:
    """Makes topics with so many copies; refuses what it is asked to."""

    def __init__(self, copies: int, most_bytes: int = 2**20, **refuses: int) -> None:
        self.copies, self.most_bytes, self.refuses = copies, most_bytes, refuses  # create, alter -> the error's code
        self.topics: dict[str, dict[str, str]] = {}

    def create_topics(self, new: list[NewTopic], operation_timeout: float, request_timeout: float) -> Any:
        return {topic.topic: self._create(topic) for topic in new}

    def _create(self, topic: NewTopic) -> "Future[None]":
        config = dict(topic.config)
        if "create" in self.refuses:
            return answered(self.refuses["create"])
        if int(config.get("max.message.bytes", "0")) > self.most_bytes:
            return answered(KafkaError.POLICY_VIOLATION)
        self.topics[topic.topic] = config
        return answered()

    def list_topics(self, timeout: float) -> Any:
        partition = SimpleNamespace(replicas=list(range(self.copies)))
        return SimpleNamespace(topics={name: SimpleNamespace(partitions={0: partition}) for name in self.topics})

    def incremental_alter_configs(self, asked: list[ConfigResource], request_timeout: float) -> Any:
        if "alter" in self.refuses:
            return {resource: answered(self.refuses["alter"]) for resource in asked}
        for resource in asked:
            self.topics[resource.name] |= {entry.name: entry.value for entry in resource.incremental_configs}
        return {resource: answered() for resource in asked}


def answered(code: int | None = None) -> "Future[None]":
    future: Future[None] = Future()
    if code is None:
        future.set_result(None)
    else:
        future.set_exception(KafkaException(KafkaError(code, "refused by policy")))
    return future


def made_on(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    monkeypatch.setattr(kafka_topics, "_admin", lambda _settings: cluster)
    monkeypatch.setattr(kafka_topics, "own_topics", lambda _settings: [])
    assert len(kafka_topics.create_topics(SETTINGS)) == len(TABLE)
    return cluster.topics


@pytest.mark.parametrize(("copies", "in_sync"), [(3, "2"), (5, "2"), (2, None), (1, None)])
def test_of_three_copies_two_must_be_in_sync(copies: int, in_sync: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = made_on(Cluster(copies), monkeypatch)
    assert {config.get("min.insync.replicas") for config in topics.values()} == {in_sync}


def test_a_cluster_that_lets_nobody_alter_topics_is_used_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made_on(Cluster(3, alter=KafkaError.TOPIC_AUTHORIZATION_FAILED), monkeypatch)
    assert "keep the cluster's own min.insync.replicas" in caplog.text


def test_a_cluster_that_allows_only_smaller_records_is_used_with_its_own_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    topics = made_on(Cluster(1, most_bytes=100_000), monkeypatch)
    results = topics[f"pochade.{RESULTS}"]
    assert "max.message.bytes" not in results
    assert "retention.ms" in results
    assert "allows no max.message.bytes of the table" in caplog.text


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.POLICY_VIOLATION])
def test_a_cluster_that_makes_no_topics_says_what_to_have_made(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PochadeError, match=r"Grant CREATE on pochade\.\* or have it created with 4 partitions"):
        made_on(Cluster(1, create=code), monkeypatch)
