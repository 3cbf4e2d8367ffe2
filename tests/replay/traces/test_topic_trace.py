"""Records of the prompts topic as a trace; the real broker is in tests/integration/test_traces_from_topic.py."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from replay.traces import Asked, InvalidTrace
from replay.traces.formats.counts import Shaping
from replay.traces.reading import NoEffect
from replay.traces.topic import read_topic, trace_of
from schemas.messages import ClassifiedRequest, GenerateRequest
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, PROMPTS, PROMPTS_BATCH
from streams.codec.avro import encode
from streams.codec.headers import REQUEST_ID
from streams.codec.request_ids import request_id_of
from streams.settings import Settings

SINCE = 1_763_800_000_000


def a_record(at_ms: int, value: bytes | dict[str, Any], partition: int = 0, topic: str = PROMPTS) -> Incoming:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Incoming(
        topic=topic, partition=partition, offset=at_ms, timestamp_ms=SINCE + at_ms, key=None, value=data
    )  # fmt: skip


def test_partitions_are_one_trace_in_the_brokers_order_of_time() -> None:
    records = [a_record(5, {"prompt": "b"}), a_record(9, {"prompt": "d"}), a_record(2, {"prompt": "a"}, 1)]
    trace = trace_of([*records, a_record(7, {"prompt": "c"}, 1)], "mine", SINCE, SINCE + 10, Asked())
    assert [row.prompt for row in trace.rows()] == ["a", "b", "c", "d"]
    assert trace.arrival_ms.tolist() == [0, 3, 5, 7]
    assert trace.name == "mine.prompts.v1"


def test_options_of_counts_are_refused_before_the_topics_are_read() -> None:
    with pytest.raises(NoEffect):
        read_topic(Settings(), SINCE, SINCE + 10, Asked(shaping=Shaping(spacing="even")))


def test_a_span_of_time_is_named_as_options_take_it() -> None:
    with pytest.raises(InvalidTrace, match=r"got 2025-11-22T08:26:40\+00:00 and 2025-11-22T08:26:30\+00:00"):
        read_topic(Settings(), SINCE, SINCE - 10_000, Asked())
    said = r"p\.prompts\.v1 from 2025-11-22T08:26:40\+00:00 to 2025-11-22T08:26:50\+00:00 has no requests"
    with pytest.raises(InvalidTrace, match=said):
        trace_of([], "p", SINCE, SINCE + 10_000, Asked())


def test_a_record_in_avro_has_its_options_its_deadline_and_its_id() -> None:
    request = GenerateRequest(
        request_id="r", prompt="a cat", created_ms=SINCE - 40, deadline_ms=SINCE + 460, tier="batch", seed=5
    )
    (row,) = trace_of([a_record(3, encode(request))], "p", SINCE, SINCE + 10, Asked()).rows()
    assert (row.request_id, row.slack_ms, row.wish.tier, row.seed, row.arrival_ms) == ("r", 500, "batch", 5, 0)


def a_classified_record(at_ms: int, request_id: str, hardness: float) -> Incoming:
    request = GenerateRequest(request_id=request_id, prompt="a cat", created_ms=SINCE)
    classified = ClassifiedRequest(
        request=request, hardness=hardness, classes={}, classifier="rules", received_ms=SINCE, classified_ms=SINCE
    )
    return a_record(at_ms, encode(classified), topic=CLASSIFIED)


def test_requests_have_the_hardness_that_the_classifier_predicted_and_none_where_it_is_not_there() -> None:
    records = [a_record(n, {"prompt": "a", "request_id": f"r{n}"}) for n in range(3)]
    records += [a_classified_record(9, "r2", 0.75), a_classified_record(2, "r0", 0.25), a_classified_record(3, "x", 1)]
    trace = trace_of([*records, a_record(4, b"\x00poison", topic=CLASSIFIED)], "p", SINCE, SINCE + 10, Asked())
    np.testing.assert_array_equal(trace.hardness, [0.25, np.nan, 0.75])
    assert trace.skipped == {"not a classified request": 1}


def test_poison_and_ids_that_came_before_are_counted() -> None:
    batch = {"prompt": "a", "request_id": "r", "tier": "batch"}
    records = [a_record(1, batch), a_record(4, batch, topic=PROMPTS_BATCH), a_record(5, b"\x00poison")]
    records += [a_record(6, {"prompt": 5}), a_record(7, {"prompt": "b", "n": 0})]
    trace = trace_of(records, "p", SINCE, SINCE + 10, Asked())
    assert [row.request_id for row in trace.rows()] == ["r"]
    assert trace.skipped == {"repeated": 1, "not a request": 2, "invalid options": 1}


def test_prompts_under_one_key_are_requests_of_their_own_and_a_moved_one_without_an_id_counts_once() -> None:
    records = [dataclasses.replace(a_record(n, {"prompt": "a"}), key=b"user-42", offset=n) for n in range(3)]
    name = request_id_of(records[2]).encode()
    moved = dataclasses.replace(records[2], topic=PROMPTS_BATCH, offset=9, headers={REQUEST_ID: name})
    trace = trace_of([*records, moved], "p", SINCE, SINCE + 10, Asked())
    assert [row.request_id for row in trace.rows()] == [request_id_of(record) for record in records]
    assert trace.skipped == {}, "the classifier has moved it; nobody has repeated it"


def test_what_was_asked_of_a_trace_holds_for_history_too() -> None:
    records = [a_record(n, {"prompt": "a", "model": "old"}) for n in range(10)]
    asked = Asked(limit=3, speed=2, renamed={"old": "heavy"}, models=frozenset({"heavy"}))
    trace = trace_of(records, "p", SINCE, SINCE + 10, asked)
    assert trace.arrival_ms.tolist() == [0, 0.5, 1]
    assert trace.row(0).wish.options.model == "heavy"


def test_a_window_without_requests_is_reported() -> None:
    with pytest.raises(InvalidTrace, match=r"p\.prompts\.v1 .* has no requests, 1 skipped: 1 not a request"):
        trace_of([a_record(1, b"")], "p", SINCE, SINCE + 10, Asked())
