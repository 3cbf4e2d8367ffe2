from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from streams.group_progress import _offsets


class Cluster:
    """An AdminClient's offsets; the first answers are errors."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def list_offsets(self, asked: dict[TopicPartition, Any], **_: Any) -> dict[TopicPartition, Future[Any]]:
        answers = {}
        code = self.codes.pop(0) if self.codes else None
        for partition in asked:
            answers[partition] = future = Future[Any]()
            if code is None:
                future.set_result(SimpleNamespace(offset=7))
            else:
                future.set_exception(KafkaException(KafkaError(code)))
        return answers


def test_a_topic_made_a_moment_ago_is_asked_again_until_it_has_a_leader() -> None:
    cluster: Any = Cluster(KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert _offsets(cluster, [TopicPartition("events", 1)], OffsetSpec.latest()) == {1: 7}


def test_what_does_not_pass_is_told_at_once() -> None:
    cluster: Any = Cluster(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException):
        _offsets(cluster, [TopicPartition("events", 1)], OffsetSpec.latest())
    assert cluster.codes == []
