"""What is open of a partition from which nothing is committed."""

import pytest

from planner.serving.resuming import Lying, Unfinished, is_forgotten, unfinished
from tests.builders import NOW_MS


def lying(*has_result: bool, first: int = 5, age_ms: int = 1000) -> list[Lying]:
    return [Lying(first + n, NOW_MS - age_ms, each) for n, each in enumerate(has_result)]


WEEK_MS = 7 * 24 * 60 * 60 * 1000


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([], Unfinished(9)),
        (lying(True, True, True, True), Unfinished(9)),
        (lying(False, False, False, False), Unfinished(5)),  # nobody ever served the variant
        (lying(True, True, False, False), Unfinished(7)),  # its last worker left, and two came later
        (lying(True, False, True, False), Unfinished(6, frozenset({7}))),
    ],
)
def test_where_nothing_is_committed_what_has_no_result_is_open(jobs: list[Lying], expected: Unfinished) -> None:
    assert unfinished(jobs, 9, NOW_MS, WEEK_MS) == expected


def test_a_job_that_waits_only_to_be_deleted_is_not_open_as_its_result_may_have_gone_before_it() -> None:
    jobs = [*lying(False, False, age_ms=WEEK_MS + 1), *lying(False, first=7, age_ms=WEEK_MS)]
    assert unfinished(jobs, 9, NOW_MS, WEEK_MS) == Unfinished(7)


def test_what_came_after_the_look_is_open() -> None:
    found = Unfinished(6, frozenset({7}))
    assert [found.is_over(offset) for offset in range(5, 10)] == [True, False, True, False, False]


@pytest.mark.parametrize(
    ("first", "young", "end", "expected"),
    [
        (5, 5, 9, False),  # all were written within the last minute, whose ends everybody knows
        (5, 7, 9, True),
        (5, 9, 9, True),
        (9, 9, 9, False),  # empty
    ],
)
def test_only_jobs_older_than_what_everybody_remembers_may_have_ended_unseen(
    first: int, young: int, end: int, expected: bool
) -> None:
    assert is_forgotten(first, young, end) is expected
