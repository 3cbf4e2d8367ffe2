"""What is committed of jobs that do not go in the order in which they lie, and what the next owner forwards."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from agents.router.waiting.progress import MAX_METADATA, Committed, Progress


def taken(count: int) -> Progress:
    progress = Progress(Committed(0, 0, ()))
    assert all(progress.take(offset) for offset in range(count))
    return progress


def test_jobs_that_go_in_order_are_committed_by_their_offset_alone() -> None:
    progress = taken(3)
    progress.went(0)
    progress.went(1)
    assert progress.is_news
    assert progress.committed() == Committed(2, 2, ())
    assert progress.committed().metadata == ""
    assert not progress.is_news


def test_a_job_that_others_have_overtaken_is_committed_beside_them() -> None:
    progress = taken(10)
    for offset in (0, 1, 2, 3, 4, 6, 7, 9):
        progress.went(offset)
    committed = progress.committed()
    assert (committed.offset, committed.metadata) == (5, "until=10 open=0,3")
    assert Committed.of(5, "until=10 open=0,3") == committed
    again = Progress(committed)
    assert [offset for offset in range(5, 12) if again.take(offset)] == [5, 8, 10, 11]


def test_a_job_that_is_read_twice_is_taken_once() -> None:
    progress = taken(2)
    assert not progress.take(1)
    assert progress.take(2)


def test_jobs_of_requests_that_had_ended_are_not_taken_and_not_asked_about_again() -> None:
    progress = Progress(Committed(0, 0, ()), ended=[1])
    assert [offset for offset in range(3) if progress.take(offset)] == [0, 2]
    assert progress.committed().metadata == "until=2 open=0"


def test_what_does_not_fit_the_metadata_is_forwarded_again_and_never_left_out() -> None:
    progress, count = taken(10_000), 10_000
    for offset in range(1, count, 2):
        progress.went(offset)
    committed = progress.committed()
    assert len(committed.metadata) <= MAX_METADATA
    again = Progress(Committed.of(committed.offset, committed.metadata))
    assert {offset for offset in range(count) if again.take(offset)} >= set(range(0, count, 2))


def test_metadata_of_another_form_says_nothing() -> None:
    assert Committed.of(7, "attempt=1 until=9") == Committed(7, 7, ())
    assert Committed.of(7, None) == Committed(7, 7, ())
    assert Committed.of(7, "until=3 open=0") == Committed(7, 7, ())


def test_what_waits_is_counted_by_what_is_committed_and_where_the_topic_ends() -> None:
    assert Committed(5, 10, (5, 8)).waiting(end=12) == 4
    assert Committed(5, 5, ()).waiting(end=5) == 0


@given(st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=4))
def test_whoever_takes_over_forwards_exactly_what_has_not_gone(lives: list[list[int]]) -> None:
    gone, committed = set[int](), Committed(0, 0, ())
    for number, life in enumerate(lives, 1):
        progress, end = Progress(Committed.of(committed.offset, committed.metadata)), 8 * number
        open_ = [offset for offset in range(committed.offset, end) if progress.take(offset)]
        assert open_ == sorted(set(range(end)) - gone)
        for offset in dict.fromkeys(itertools.chain(life)):
            if offset in open_:
                progress.went(offset)
                gone.add(offset)
        committed = progress.committed()
