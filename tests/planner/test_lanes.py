"""The batch lane: it takes what others leave."""

from planner.lanes import Occupation, batch_may_pass

IDLE, AT_WORK, BEHIND = Occupation(0, 20), Occupation(15, 20), Occupation(35, 20)


def test_an_idle_worker_and_nothing_waiting_let_a_batch_request_pass() -> None:
    assert batch_may_pass([IDLE, AT_WORK], 0)


def test_work_that_waits_anywhere_holds_the_batch_lane() -> None:
    assert not batch_may_pass([IDLE, BEHIND], 0)


def test_without_an_idle_worker_the_lane_waits() -> None:
    assert not batch_may_pass([AT_WORK, AT_WORK], 0)


def test_no_more_pass_than_there_are_workers() -> None:
    assert batch_may_pass([IDLE, IDLE], 1)
    assert not batch_may_pass([IDLE, IDLE], 2)


def test_without_workers_nothing_passes() -> None:
    assert not batch_may_pass([], 0)
