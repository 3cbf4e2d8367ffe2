"""The batch lane: it takes what others leave."""

from planner.lanes import ON_ITS_WAY_MS, Occupation, batch_may_pass

IDLE, AT_WORK, BEHIND = Occupation(0, 20), Occupation(15, 20), Occupation(35, 20)
BEAT_MS = 500.0
JUST_NOW, LONG_AGO = 10.0, BEAT_MS + ON_ITS_WAY_MS


def test_an_idle_worker_and_nothing_waiting_let_a_batch_request_pass() -> None:
    assert batch_may_pass([IDLE, AT_WORK], [], BEAT_MS)


def test_work_that_waits_anywhere_holds_the_batch_lane() -> None:
    assert not batch_may_pass([IDLE, BEHIND], [], BEAT_MS)


def test_without_an_idle_worker_the_lane_waits() -> None:
    assert not batch_may_pass([AT_WORK, AT_WORK], [], BEAT_MS)


def test_an_idle_worker_is_for_one_request_until_its_load_is_told() -> None:
    assert batch_may_pass([IDLE, IDLE], [JUST_NOW], BEAT_MS)
    assert not batch_may_pass([IDLE, AT_WORK, AT_WORK], [JUST_NOW], BEAT_MS)
    assert batch_may_pass([IDLE, AT_WORK, AT_WORK], [LONG_AGO], BEAT_MS), "it is the work that was told"


def test_no_more_pass_than_there_are_workers() -> None:
    assert batch_may_pass([IDLE, IDLE], [LONG_AGO], BEAT_MS)
    assert not batch_may_pass([IDLE, IDLE], [LONG_AGO, LONG_AGO], BEAT_MS)


def test_without_workers_nothing_passes() -> None:
    assert not batch_may_pass([], [], BEAT_MS)
