"""The batch gate: it takes what others leave."""

from planner.serving.admission.batch_gate import UNREPORTED_MS, Occupation, batch_may_pass

IDLE, AT_WORK, BEHIND = Occupation(0, 20), Occupation(15, 20), Occupation(35, 20)
JUST_NOW, LONG_AGO = 10.0, UNREPORTED_MS


def test_an_idle_worker_and_nothing_waiting_let_a_batch_request_pass() -> None:
    assert batch_may_pass([IDLE, AT_WORK], [])


def test_work_that_waits_anywhere_shuts_the_batch_gate() -> None:
    assert not batch_may_pass([IDLE, BEHIND], [])


def test_without_an_idle_worker_the_gate_stays_shut() -> None:
    assert not batch_may_pass([AT_WORK, AT_WORK], [])


def test_an_idle_worker_is_for_one_request_until_its_load_is_reported() -> None:
    assert batch_may_pass([IDLE, IDLE], [JUST_NOW])
    assert not batch_may_pass([IDLE, AT_WORK, AT_WORK], [JUST_NOW])
    assert batch_may_pass([IDLE, AT_WORK, AT_WORK], [LONG_AGO]), "it is the work that was reported"


def test_no_more_pass_than_there_are_workers() -> None:
    assert batch_may_pass([IDLE, IDLE], [LONG_AGO])
    assert not batch_may_pass([IDLE, IDLE], [LONG_AGO, LONG_AGO])


def test_without_workers_nothing_passes() -> None:
    assert not batch_may_pass([], [])
