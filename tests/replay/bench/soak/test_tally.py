"""A tally counts what was accepted, lost and doubled, over sessions that end at any time."""

import json

from replay.bench.soak.report import Session, broken, build
from replay.bench.soak.samples import Watch
from replay.bench.soak.tally import BLOCK, Tally


def a_tally(count: int) -> Tally:
    """A run of which `count` requests were sent, and none acknowledged."""
    tally = Tally("soak-1")
    for number in range(count):
        if tally.needs_reserve(count):
            tally.reserve(count)
        assert tally.next(count) == number
        tally.is_open.add(number)
    return tally


def resumed(tally: Tally) -> Tally:
    """The tally of the next session, by what this one writes to its file."""
    return Tally.resumed(json.loads(json.dumps(tally.kept())))


def test_no_request_is_sent_before_its_number_is_reserved() -> None:
    tally = Tally("soak-1")
    assert tally.next(BLOCK + 5) is None
    assert tally.needs_reserve(BLOCK + 5)
    tally.reserve(BLOCK + 5)
    assert [tally.next(BLOCK + 5) for _ in range(BLOCK + 1)][-2:] == [BLOCK - 1, None]
    tally.reserve(BLOCK + 5)
    assert [tally.next(BLOCK + 5) for _ in range(6)][-2:] == [BLOCK + 4, None]
    assert not tally.needs_reserve(BLOCK + 5)


def test_accepted_requests_without_a_result_are_lost_and_second_results_are_duplicates() -> None:
    tally = a_tally(5)
    for number in range(4):
        tally.acknowledged(number)
    for number, status in ((0, "COMPLETED"), (1, "REJECTED"), (0, "COMPLETED"), (2, "COMPLETED")):
        tally.has_ended(number, status)
    report = build(tally, Watch(), Session(), {}, {}, is_over=True)
    assert (report["accepted"], report["lost"], report["duplicates"]) == (4, 1, 1)
    assert report["ends"] == {"COMPLETED": 2, "REJECTED": 1}
    assert report["named"] == {"lost": ["soak-1-00000003"], "doubled": ["soak-1-00000000"]}
    assert "1 have no result, and 1 results came beyond" in (broken(report) or "")


def test_a_run_that_is_not_over_has_open_requests_and_none_that_are_lost() -> None:
    tally = a_tally(3)
    for number in range(3):
        tally.acknowledged(number)
    tally.has_ended(1, "COMPLETED")
    report = build(tally, Watch(), Session(), {}, {}, is_over=False)
    assert (report["lost"], report["open"], broken(report)) == (0, 2, None)


def test_the_next_session_waits_for_what_was_acknowledged_and_sends_the_rest_again_under_its_id() -> None:
    tally = a_tally(6)
    for number in (0, 1, 2):
        tally.acknowledged(number)
    tally.has_ended(0, "COMPLETED")
    tally.has_ended(5, "COMPLETED")  # its acknowledgement was not read any more
    again = resumed(tally)
    assert again.is_open == {1, 2}
    assert [again.next(6) for _ in range(3)] == [3, 4, None]
    assert again.repeated == 2
    assert again.id_of(3) == tally.id_of(3)
    again.has_ended(0, "COMPLETED")
    assert (again.duplicates, len(again.ended)) == (1, 2)


def test_a_request_that_the_broker_refused_is_sent_again_unless_it_has_ended() -> None:
    tally = a_tally(2)
    tally.has_ended(1, "COMPLETED")
    tally.refused(0)
    tally.refused(1)
    assert [tally.next(2), tally.next(2)] == [0, None]


def test_a_result_is_of_the_run_by_the_start_of_its_key() -> None:
    tally = Tally("soak-1129-160747")
    assert tally.number_of(tally.id_of(1_234_567).encode()) == 1_234_567
    assert tally.number_of(b"soak-1129-160748-00000001") is None
    assert tally.number_of(b"warm-up") is None
    assert tally.number_of(b"soak-1129-160747-x") is None
