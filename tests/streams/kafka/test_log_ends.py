# ruff: noqa: ARG002  the port names its arguments
import gc
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streams.kafka import log_ends
from streams.kafka.log_ends import LogEnds

Asked = dict[TopicPartition, object]


class Answer(Future[SimpleNamespace]):
    """An end that is known at once; `first` runs when it is waited for."""

    def __init__(self, offset: int, first: Callable[[float | None], object] = lambda _timeout: None) -> None:
        super().__init__()
        self._offset, self._first = offset, first

    def result(self, timeout: float | None = None) -> SimpleNamespace:
        self._first(timeout)
        return SimpleNamespace(offset=self._offset)


class FakeAdmin:
    """Every partition ends at 9."""

    def __init__(self, config: dict[str, Any]) -> None: ...

    def list_offsets(self, asked: Asked, request_timeout: float) -> dict[TopicPartition, Answer]:
        return {tp: Answer(9) for tp in asked}


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> LogEnds:
    monkeypatch.setattr(log_ends, "AdminClient", FakeAdmin)
    return LogEnds({})


def test_a_client_that_cannot_tell_is_replaced(monkeypatch: pytest.MonkeyPatch, ends: LogEnds) -> None:
    # found by chaos: after the broker's death one failed for ever, and heartbeats named no partition any more
    def fail(*_asked: object, **_limits: object) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(ends._admin, "list_offsets", fail)
    with pytest.raises(KafkaException):
        ends.of("t", [0])
    assert ends.of("t", [0]) == {0: 9}


def test_a_client_that_does_not_answer_is_replaced(ends: LogEnds) -> None:
    class Silent(FakeAdmin):
        def list_offsets(self, asked: Asked, request_timeout: float) -> dict[TopicPartition, Answer]:
            return {tp: Answer(9, late) for tp in asked}

    def late(_timeout: float | None) -> None:
        raise TimeoutError

    ends._admin = Silent({})  # type: ignore[assignment]
    with pytest.raises(TimeoutError):
        ends.of("t", [0])
    assert ends.of("t", [0]) == {0: 9}


def test_a_client_lives_until_its_answers_are_here_though_another_thread_has_replaced_it(ends: LogEnds) -> None:
    # found by chaos seed 1: a worker that wished to change variant waited for a client that the heartbeat had replaced
    class Told(FakeAdmin):
        def list_offsets(self, asked: Asked, request_timeout: float) -> dict[TopicPartition, Answer]:
            return {tp: Answer(9, another_thread_fails) for tp in asked}

    def another_thread_fails(timeout: float | None) -> None:
        assert timeout is not None, "nobody waits for ever"
        ends._admin = FakeAdmin({})  # type: ignore[assignment]
        gc.collect()
        assert client() is not None, "its answers would never come"

    ends._admin = Told({})  # type: ignore[assignment]
    client = weakref.ref(ends._admin)
    assert ends.of("t", [0]) == {0: 9}


def test_an_end_that_the_broker_does_not_know_yet_is_left_out(ends: LogEnds) -> None:
    # found by chaos: a broker that has just begun answers -1, and everybody refused the whole heartbeat
    class Beginning(FakeAdmin):
        def list_offsets(self, asked: Asked, request_timeout: float) -> dict[TopicPartition, Answer]:
            return {tp: Answer(-1 if tp.partition else 9) for tp in asked}

    ends._admin = Beginning({})  # type: ignore[assignment]
    assert ends.of("t", [0, 1]) == {0: 9}


def test_nothing_is_asked_about_no_partitions(ends: LogEnds) -> None:
    assert ends.of("t", []) == {}
