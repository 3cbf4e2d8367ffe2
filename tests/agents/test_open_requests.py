"""Open requests: overdue ones are handed over once, in the order of their deadlines."""

from agents.open_requests import FORGET_MS, OpenRequests
from schemas.record import Incoming
from streams.headers import DEADLINE
from tests.agents.stubs import a_record


def a_classified_record(deadline_ms: int | None, partition: int = 0, key: bytes = b"r-1") -> Incoming:
    headers = {} if deadline_ms is None else {DEADLINE: str(deadline_ms).encode()}
    return a_record(partition=partition, key=key, headers=headers)


def test_what_is_past_its_deadline_and_grace_is_handed_over_once_the_earliest_first() -> None:
    waiting = OpenRequests()
    for deadline, key in ((300, b"c"), (100, b"a"), (200, b"b")):
        waiting.on_record(a_classified_record(deadline, key=key))
    assert waiting.overdue(0, 150, 50) == []
    assert [r.key for r in waiting.overdue(0, 251, 50)] == [b"a", b"b"]
    assert waiting.overdue(0, 251, 50) == []
    assert len(waiting) == 1


def test_without_a_deadline_nothing_is_kept() -> None:
    waiting = OpenRequests()
    waiting.on_record(a_classified_record(None))
    assert len(waiting) == 0


def test_partitions_are_asked_for_one_by_one_and_long_overdue_ones_of_others_are_forgotten() -> None:
    waiting = OpenRequests()
    waiting.on_record(a_classified_record(100, partition=3))
    assert waiting.overdue(0, 1000, 0) == []
    waiting.forget(100 + FORGET_MS)
    assert len(waiting) == 1
    waiting.forget(101 + FORGET_MS)
    assert len(waiting) == 0


def test_a_header_that_is_no_time_is_no_deadline() -> None:
    waiting = OpenRequests()
    for text in (b"9" * 5000, b"9" * 20, b"-1", b"", b"\xff", "²".encode()):
        waiting.on_record(a_record(headers={DEADLINE: text}))
    assert len(waiting) == 0
