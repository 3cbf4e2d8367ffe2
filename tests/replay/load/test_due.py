from replay.load.due import Left
from replay.load.identity import Ids
from tests.replay.load.runs import a_trace

IDS = Ids("run", "abc", 4)


def test_all_of_a_trace_is_due_at_its_own_times() -> None:
    left = Left(a_trace([5.0, 10.0, 30.0, 60.0]), IDS, {}, 500)
    assert [(due.offset_ms, due.request_id, due.row.prompt) for due in left] == [
        (5.0, IDS[0], "one"), (10.0, IDS[1], "two"), (30.0, IDS[2], "one"), (60.0, IDS[3], "two"),
    ]  # fmt: skip
    assert {due.row.slack_ms for due in left} == {500}


def test_what_was_published_is_left_out_and_the_rest_begins_at_once() -> None:
    left = Left(a_trace([0.0, 10.0, 30.0, 60.0]), IDS, {0: 1, 1: 1}, None)
    assert [(due.offset_ms, due.request_id) for due in left[0:2]] == [(0.0, IDS[2]), (30.0, IDS[3])]
    assert left[0].row.slack_ms is None


def test_one_that_the_broker_had_refused_is_published_before_the_rest() -> None:
    left = Left(a_trace([0.0, 10.0, 30.0, 60.0]), IDS, {0: 1, 2: 1}, None)
    assert [(due.offset_ms, due.request_id) for due in left] == [(0.0, IDS[1]), (50.0, IDS[3])]


def test_nothing_is_left_of_a_run_that_was_published_whole() -> None:
    assert len(Left(a_trace([0.0, 10.0]), IDS, {0: 1, 1: 1}, None)) == 0
