import threading
from collections.abc import Sequence

import pytest

from schemas.errors import PochadeError
from schemas.messages import GenerateRequest, Result
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams.codec.avro import decode, encode
from streams.operator.client import SKEW_MS, OnRecord, RequestClient
from streams.settings import Settings
from tests.builders import NOW_MS, a_request
from tests.memory_kafka import MemoryRecordProducer
from tests.replay.runs import a_result


def record(result: Result, offset: int = 0, value: bytes | None = None) -> Incoming:
    key = result.request_id.encode()
    return Incoming(
        topic=RESULTS, partition=0, offset=offset, timestamp_ms=NOW_MS, key=key, value=value or encode(result)
    )


class Topic:
    """`results` with a past, handed over on opening, and a present, handed over by `arrive`."""

    def __init__(self, *past: Incoming) -> None:
        self.past: Sequence[Incoming] = past
        self.is_caught_up = threading.Event()
        self.opened_since: list[int] = []
        self.closed = 0
        self._on_record: list[OnRecord] = []

    def open(self, _settings: Settings, on_record: OnRecord, since_ms: int) -> "Topic":
        self.opened_since.append(since_ms)
        self._on_record.append(on_record)
        for each in self.past:
            on_record(each)
        self.is_caught_up.set()
        return self

    def arrive(self, each: Incoming) -> None:
        for on_record in self._on_record:
            on_record(each)

    def wait_caught_up(self, _timeout_s: float) -> None:
        assert self.is_caught_up.is_set()

    def close(self) -> None:
        self.closed += 1


def a_client(topic: Topic, producer: MemoryRecordProducer | None = None) -> RequestClient:
    producer = producer or MemoryRecordProducer()
    return RequestClient(Settings(), producer, open_follower=topic.open, clock_ms=lambda: NOW_MS)


def test_a_request_is_written_as_framed_avro_under_its_id() -> None:
    producer = MemoryRecordProducer()
    a_client(Topic(), producer).submit(a_request(request_id="r-7")).result(1)
    (written,) = producer.topics["prompts.v1"]
    assert written.key == b"r-7"
    assert decode(written.value, GenerateRequest) == a_request(request_id="r-7")
    assert {"traceparent", "ce_type", "ce_subject"} <= set(written.headers)


def test_waiting_returns_the_result_that_arrives() -> None:
    topic = Topic()
    with a_client(topic) as client:
        client.listen()
        topic.arrive(record(a_result(request_id="r-1")))
        assert client.wait("r-1", 1).request_id == "r-1"
    assert topic.closed == 1


def test_waiting_without_listening_first_misses_nothing_since_the_client_was_made() -> None:
    topic = Topic(record(a_result(request_id="r-1")))
    with a_client(topic) as client:
        assert client.wait("r-1", 1).request_id == "r-1"
    assert topic.opened_since == [NOW_MS - SKEW_MS]


def test_waiting_too_long_says_how_long_and_where_to_look() -> None:
    says = r"r-1 has no result after 0\.01 s.*explain r-1.*`pochade doctor`"
    with a_client(Topic()) as client, pytest.raises(PochadeError, match=says):
        client.wait("r-1", 0.01)


def test_of_two_results_the_first_is_the_one() -> None:
    first, second = a_result(request_id="r-1", reason="first"), a_result(request_id="r-1", reason="second")
    topic = Topic(record(first), record(second, 1))
    with a_client(topic) as client:
        assert client.wait("r-1", 1).reason == "first"
        assert client.find("r-1") == first


def test_a_result_is_found_by_its_id_and_an_unknown_id_is_none() -> None:
    topic = Topic(*(record(a_result(request_id=f"r-{n}"), n) for n in range(5)))
    client = a_client(topic)
    found = client.find("r-3", NOW_MS - 60)
    assert found is not None
    assert found.request_id == "r-3"
    assert client.find("r-9") is None
    assert topic.opened_since[0] == NOW_MS - 60
    assert topic.closed == 2
