from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streams.kafka.consumers import offsets
from streams.kafka.consumers.offsets import ENDS_ANSWER_S, LogEnds, committed, ends_of
from streams.settings import load

PARTITIONS = [TopicPartition("events", 1)]


class Cluster:
    """What a Consumer asks; the first answers are errors."""

    def __init__(self, *codes: int, each: bool = False) -> None:
        """`each`: the error of each partition, not of the whole question."""
        self.codes, self.each = list(codes), each

    def _error(self) -> KafkaError | None:
        error = KafkaError(self.codes.pop(0)) if self.codes else None
        if error is not None and not self.each:
            raise KafkaException(error)
        return error

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        self._error()
        return 3, 7

    def committed(self, asked: list[TopicPartition], **_: Any) -> list[Any]:
        error = self._error()
        return [SimpleNamespace(partition=each.partition, offset=5, error=error) for each in asked]


def test_a_topic_made_a_moment_ago_is_asked_again_until_it_has_a_leader() -> None:
    cluster: Any = Cluster(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert ends_of(cluster, PARTITIONS) == {1: (3, 7)}


@pytest.mark.parametrize("each", [False, True])
def test_a_group_whose_coordinator_moves_is_asked_for_again(each: bool) -> None:
    cluster: Any = Cluster(KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, each=each)
    assert committed(cluster, PARTITIONS, 5) == {1: 5}
    assert cluster.codes == []


@pytest.mark.parametrize("look", [ends_of, partial(committed, limit_s=5)])
def test_what_does_not_pass_is_reported_at_once(look: Any) -> None:
    cluster: Any = Cluster(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException):
        look(cluster, PARTITIONS)
    assert cluster.codes == []


class Client:
    """Partition p ends at 10 + p, but for those whose leader is `away` or has `just_begun`."""

    def __init__(self, away: set[int], just_begun: set[int]) -> None:
        self._away, self._just_begun = away, just_begun
        self.limits_s: list[float] = []

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        self.limits_s.append(timeout)
        if partition.partition in self._away:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return (0, -1 if partition.partition in self._just_begun else 10 + partition.partition)


def ends(away: set[int] = frozenset(), just_begun: set[int] = frozenset()) -> tuple[LogEnds, Client]:  # type: ignore[assignment]
    asked, client = LogEnds(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})), Client(away, just_begun)
    asked._client = client
    return asked, client


def test_each_partition_has_its_end() -> None:
    assert ends()[0].of("t", [0, 2]) == {0: 10, 2: 12}


def test_a_partition_without_a_leader_is_left_out_and_the_others_are_reported() -> None:
    # found by chaos with three brokers: one lost broker, and a worker's heartbeats named no partition at all
    assert ends(away={1})[0].of("t", [0, 1, 2]) == {0: 10, 2: 12}


def test_an_end_that_the_broker_does_not_know_yet_is_left_out() -> None:
    # found by chaos: a broker that has just begun answers -1, and everybody refused the whole heartbeat
    assert ends(just_begun={0})[0].of("t", [0, 1]) == {1: 11}


def test_it_is_an_error_that_nobody_answers() -> None:
    with pytest.raises(KafkaException):
        ends(away={0, 1})[0].of("t", [0, 1])


def test_all_partitions_together_are_asked_for_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(offsets.time, "monotonic", lambda: now[0])
    asked, client = ends(away={0, 1, 2, 3})

    def use_up(partition: TopicPartition, timeout: float) -> tuple[int, int]:
        now[0] += timeout
        return Client.get_watermark_offsets(client, partition, timeout)

    monkeypatch.setattr(client, "get_watermark_offsets", use_up)
    with pytest.raises(KafkaException):
        asked.of("t", [0, 1, 2, 3])
    assert now[0] == pytest.approx(ENDS_ANSWER_S)


def test_nothing_is_asked_about_no_partitions() -> None:
    asked, client = ends()
    assert asked.of("t", []) == {}
    assert client.limits_s == []
