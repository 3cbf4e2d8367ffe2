from dataclasses import replace

import pytest

from replay.load.identity import Ids
from replay.load.record.history import (
    MAX_EARLIER,
    Published,
    _beats,
    _before,
    _images,
    _plans,
    _results,
    published,
)
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, FLEET, IMAGES, PLAN, PLAN_KEY, PROMPTS, PROMPTS_BATCH, RESULTS
from streams.codec.avro import encode
from tests.builders import NOW_MS, a_classified, a_heartbeat, a_job, a_plan, a_request, an_image
from tests.replay.load.runs import answered

IDS = Ids("run", "abc", 3)


def written(number: int, topic: str = PROMPTS, created_ms: int = NOW_MS, key: str = "") -> Incoming:
    request = a_request(request_id=IDS[number], created_ms=created_ms)
    name = (key or request.request_id).encode()
    return Incoming(
        topic=topic, partition=0, offset=0, timestamp_ms=NOW_MS, key=name, value=encode(request), headers={}
    )  # fmt: skip


def test_the_topics_tell_what_was_published_and_when() -> None:
    found = published([written(0), written(2, created_ms=NOW_MS + 9), written(1, key="a-stranger")], IDS)
    assert found == Published({0: NOW_MS, 2: NOW_MS + 9}, 0)


def test_a_request_that_was_published_twice_is_counted() -> None:
    found = published([written(0), written(0, created_ms=NOW_MS - 5)], IDS)
    assert found == Published({0: NOW_MS - 5}, 1)


def test_one_that_the_classifier_moved_to_the_batch_topic_was_published_once() -> None:
    assert published([written(0), written(0, PROMPTS_BATCH)], IDS).repeats == 0


def test_a_record_that_is_no_request_is_not_ours() -> None:
    broken = Incoming(
        topic=PROMPTS, partition=0, offset=0, timestamp_ms=NOW_MS, key=IDS[0].encode(), value=b"\xff", headers={}
    )  # fmt: skip
    assert published([broken], IDS) == Published({}, 0)


def record(topic: str, value: bytes, at_ms: int = NOW_MS, key: str = PLAN_KEY) -> Incoming:
    return Incoming(
        topic=topic, partition=0, offset=0, timestamp_ms=at_ms, key=key.encode(), value=value, headers={}
    )  # fmt: skip


def test_plans_begin_with_the_one_in_force_and_tell_when_they_were_written() -> None:
    made = [a_plan(version=n, created_ms=NOW_MS + 1000 * n) for n in range(4)]
    found, written_ms = _plans([record(PLAN, encode(p), p.created_ms + 70) for p in made], NOW_MS + 1500)
    assert [plan.version for plan in found] == [1, 2, 3]
    assert written_ms[2] == NOW_MS + 2070


def test_what_others_asked_for_in_the_minute_before_a_run_is_known() -> None:
    came = [NOW_MS - 61_000, NOW_MS - 300, NOW_MS - 7000, NOW_MS + 10]
    records = [record(CLASSIFIED, encode(a_classified(received_ms=at_ms))) for at_ms in came]
    assert _before(records, NOW_MS) == (NOW_MS - 7000, NOW_MS - 300)
    assert len(_before(records[1:2] * (MAX_EARLIER + 5), NOW_MS)) == MAX_EARLIER


def test_a_record_that_cannot_be_read_is_passed_over_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    image, own = an_image(a_job(a_classified(a_request(request_id=IDS[1])))), IDS[1]
    result = replace(answered(own), ended_ms=NOW_MS)
    pathless = replace(result, request_id=IDS[2], path="nowhere")
    assert _beats([record(FLEET, b"\xff"), record(FLEET, encode(a_heartbeat()))]) == ((NOW_MS, a_heartbeat()),)
    assert _images([record(IMAGES, each, key=own) for each in (b"\xff", encode(image))], IDS) == (image,)
    assert _before([record(CLASSIFIED, b"\xff")], NOW_MS) == ()
    assert _plans([record(PLAN, b"\xff")], NOW_MS) == ((), {})
    caplog.clear()
    results = [b"\xff", encode(result), encode(pathless)]
    assert _results([record(RESULTS, each) for each in results], IDS) == ({1: result}, 0)
    assert "passed over 2 records that cannot be read, the first of them results.v1 0@0: " in caplog.text
