"""One of several planners leads, by the lease that they share."""

import pytest

from agents.planner.leadership import BEAT_MS, Leadership
from schemas.record import Outgoing
from schemas.topics import PLAN
from tests.builders import NOW_MS
from tests.memory_kafka import LeaseBoard, MemoryLease

SILENT_MS = 3000


class Times:
    """The holders' wall clock, which never stands still."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        self.now_ms += 1
        return self.now_ms


@pytest.fixture
def board() -> LeaseBoard:
    return LeaseBoard()


def one(board: LeaseBoard) -> Leadership:
    return Leadership(MemoryLease(board), SILENT_MS, Times())


def a_record() -> Outgoing:
    return Outgoing(topic=PLAN, key=b"k", value=b"v")


def test_a_new_one_leads_at_once_and_the_older_hears_of_it_at_its_next_beat(board: LeaseBoard) -> None:
    older, newer = one(board), one(board)
    assert older.leads(0)
    assert newer.leads(0)
    assert not older.leads(BEAT_MS)


def test_the_older_writes_nothing_even_before_its_next_beat(board: LeaseBoard) -> None:
    older, newer = one(board), one(board)
    older.leads(0)
    newer.leads(0)
    assert not older.write([a_record()])
    assert newer.write([a_record()])
    assert len(board.records) == 1


def test_one_that_stands_by_waits_while_the_leader_beats_and_leads_when_it_is_silent(board: LeaseBoard) -> None:
    older, newer = one(board), one(board)
    older.leads(0)
    newer.leads(0)
    for now_ms in range(BEAT_MS, 20_000, BEAT_MS):
        assert newer.leads(now_ms)
        assert not older.leads(now_ms)
    last = 20_000 - BEAT_MS
    assert not older.leads(last + SILENT_MS - BEAT_MS)
    assert older.leads(last + SILENT_MS + BEAT_MS)
    assert not newer.leads(last + SILENT_MS + 2 * BEAT_MS)


def test_one_that_resigns_is_followed_at_once_and_does_not_take_the_lease_back(board: LeaseBoard) -> None:
    older, newer = one(board), one(board)
    older.leads(0)
    newer.leads(0)
    older.leads(BEAT_MS)
    newer.resign()
    assert older.leads(2 * BEAT_MS)
    assert not newer.leads(2 * BEAT_MS)


def test_resigning_without_leading_writes_nothing(board: LeaseBoard) -> None:
    older, newer = one(board), one(board)
    older.leads(0)
    newer.leads(0)
    older.write([])
    beat = board.beat
    older.resign()
    assert board.beat == beat > 0


def test_a_leader_beats_no_more_often_than_it_must(board: LeaseBoard) -> None:
    leader = one(board)
    leader.leads(10)
    first = board.beat
    leader.leads(10 + BEAT_MS - 1)
    assert board.beat == first
    leader.leads(10 + BEAT_MS)
    assert board.beat > first
