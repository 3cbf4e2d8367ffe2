from replay.live.history import Published, published
from replay.live.identity import Ids
from schemas.record import Incoming
from schemas.topics import PROMPTS, PROMPTS_BATCH
from streams.codec import encode
from tests.builders import NOW_MS, a_request

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


def test_one_that_the_classifier_moved_to_the_batch_lane_was_published_once() -> None:
    assert published([written(0), written(0, PROMPTS_BATCH)], IDS).repeats == 0


def test_a_record_that_is_no_request_is_not_ours() -> None:
    broken = Incoming(
        topic=PROMPTS, partition=0, offset=0, timestamp_ms=NOW_MS, key=IDS[0].encode(), value=b"\xff", headers={}
    )  # fmt: skip
    assert published([broken], IDS) == Published({}, 0)
