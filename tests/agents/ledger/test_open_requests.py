"""Open requests: the overdue are returned, the earliest first, as long as they are open; another ledger may go on."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.ledger import open_requests
from agents.ledger.open_requests import Open, OpenRequests
from schemas.ids import digest_of
from schemas.record import Incoming
from streams.codec.headers import DEADLINE
from tests.agents.stubs import a_record

AHEAD_MS = 1000


def classified(deadline_ms: int | None, offset: int = 0, key: bytes = b"r-1", at_ms: int = 0) -> Incoming:
    headers = {} if deadline_ms is None else {DEADLINE: str(deadline_ms).encode()}
    return a_record(offset=offset, key=key, headers=headers, timestamp_ms=at_ms)


def nothing(_digests: Sequence[bytes]) -> set[bytes]:
    return set()


def taken(*records: Incoming, since_ms: int = 0) -> OpenRequests:
    requests = OpenRequests(AHEAD_MS)
    requests.take(records, nothing, since_ms)
    return requests


def offsets(entries: Sequence[Open]) -> list[int]:
    return [entry.offset for entry in entries]


def test_what_is_past_its_deadline_and_grace_is_reported_the_earliest_first_and_a_few_at_once() -> None:
    requests = taken(classified(300, 0, b"c"), classified(100, 1, b"a"), classified(200, 2, b"b"))
    assert requests.overdue(150, 50, 9) == []
    assert offsets(requests.overdue(251, 50, 1)) == [1]
    assert offsets(requests.overdue(251, 50, 9)) == [2]
    assert len(requests) == 3, "until they have ended"


def test_what_could_not_be_ended_is_overdue_still() -> None:
    requests = taken(classified(100, 5))
    overdue = requests.overdue(1000, 0, 9)
    assert requests.overdue(1000, 0, 9) == []
    requests.restore(overdue)
    assert requests.overdue(1000, 0, 9) == overdue


def test_what_has_ended_is_kept_no_longer_whichever_is_read_first() -> None:
    requests = taken(classified(100, 0, b"a"), classified(100, 1, b"b"))
    requests.end([digest_of(b"a")])
    assert offsets(requests.overdue(1000, 0, 9)) == [1]
    requests.take([classified(100, 2, b"c")], lambda digests: set(digests), 0)
    assert len(requests) == 1


def test_without_a_deadline_or_with_one_that_nobody_lets_in_nothing_is_kept() -> None:
    assert len(taken(classified(None), classified(AHEAD_MS + 6, at_ms=5), classified(0, key=b"old", at_ms=7))) == 1
    assert len(taken(classified(50, at_ms=7), since_ms=8)) == 0, "it may have ended, and be forgotten"


def test_a_request_that_was_classified_twice_is_one() -> None:
    assert offsets(taken(classified(100, 0), classified(100, 1)).overdue(1000, 0, 9)) == [0]


def test_a_header_that_is_no_time_is_no_deadline() -> None:
    for text in (b"9" * 5000, b"9" * 20, b"-1", b"", b"\xff", "²".encode()):
        assert len(taken(a_record(headers={DEADLINE: text}))) == 0


def test_memory_follows_what_is_open_not_what_came() -> None:
    requests = OpenRequests(AHEAD_MS)
    for start in range(0, 20_000, 100):
        keys = [b"%d" % n for n in range(start, start + 100)]
        requests.take([classified(900, start, key) for key in keys], nothing, 0)
        requests.end(map(digest_of, keys))
    assert len(requests) == 0
    assert len(requests._deadlines) <= open_requests.SLACK + 100


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 12), st.integers(0, 4))
def test_another_ledger_that_begins_at_a_checkpoint_knows_the_same(ends: list[bool], read: int, reported: int) -> None:
    records = [classified(100, n, b"%d" % n) for n in range(len(ends))]
    ended = {digest_of(b"%d" % n) for n, has_ended in enumerate(ends) if has_ended}
    known = lambda digests: ended & set(digests)  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_requests, "MAX_CHECKPOINT", reported)
        first, second = taken(*records[:read]), OpenRequests(AHEAD_MS)
        checkpoint = first.checkpoint()
        if checkpoint is not None:
            second.resume(checkpoint, known)
        begin = checkpoint.offset if checkpoint is not None else 0
        second.take(records[begin:], known, 0)
    assert sorted(offsets(second.overdue(1000, 0, 99))) == [n for n, has_ended in enumerate(ends) if not has_ended]
