from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streams.kafka.offsets import committed, ends_of

PARTITIONS = [TopicPartition("events", 1)]


class Cluster:
    """What a Consumer asks; the first answers are errors."""

    def __init__(self, *codes: int, each: bool = False) -> None:
        """`each`: told of each partition, not of the whole question."""
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
def test_what_does_not_pass_is_told_at_once(look: Any) -> None:
    cluster: Any = Cluster(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException):
        look(cluster, PARTITIONS)
    assert cluster.codes == []
