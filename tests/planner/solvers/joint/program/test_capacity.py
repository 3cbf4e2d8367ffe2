import numpy as np
import pytest

from planner.solvers.joint.one_level import throughput
from planner.solvers.joint.program.build import _room
from planner.solvers.joint.program.capacity import GRID, modes, straight
from planner.solvers.joint.program.problem import Mode
from planner.solvers.queueing import wait_table
from tests.planner.solvers.joint.problems import always, square_root

RUN_S = {1: 1.0, 2: 1.5, 4: 2.6}


def rate(mode: Mode, count: int) -> float:
    return max((throughput(line, count) for line in mode.lines), default=0.0)


def test_without_queues_workers_carry_their_throughput_in_the_largest_batch_that_is_in_time() -> None:
    slow, quick = modes(RUN_S, (3.0, 1.6), 10, always)
    assert rate(slow, 7) == pytest.approx(7 * 4 / 2.6)
    assert [line.batch for line in quick.lines] == [2]
    assert len(slow.lines) == 1, "one straight line"


def test_a_promise_that_no_batch_can_keep_is_none() -> None:
    assert modes(RUN_S, (0.9,), 10, always) == ()
    assert modes(RUN_S, (), 10, always) == ()
    assert modes({}, (3.0,), 10, always) == ()


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 6, 17, 64, 1000])
def test_what_workers_carry_grows_with_their_number_whatever_more_there_are(
    workers: int,
) -> None:
    (mode,), (larger,) = modes(RUN_S, (4.0,), workers, square_root), modes(RUN_S, (4.0,), 3 * workers, square_root)
    rates = [rate(mode, n) for n in range(1, workers + 1)]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(rate(larger, workers), rel=0.02)


def test_between_the_counts_of_the_grid_hardly_more_is_promised_than_the_wait_table_allows() -> None:
    room = _room(wait_table(64, 0.95, 0.7))
    (mode,) = modes({1: 1.0}, (4.0,), 64, room)
    for n in range(1, 65):
        exact = n * float(room(n, np.array([3.0]))[0])
        assert rate(mode, n) == pytest.approx(exact, rel=1e-9 if n in GRID else 0.03)


def test_room_is_that_of_the_wait_table() -> None:
    table = wait_table(20, 0.95, 0.7)
    room = _room(table)
    for servers in (1, 4, 20):
        for budget in (0.1, 1.0, 7.5):
            assert float(room(servers, np.array([budget]))[0]) == pytest.approx(table.room(servers, budget), abs=1e-3)
    assert float(room(4, np.array([-0.1]))[0]) == 0.0


@pytest.mark.parametrize("count", [1, 3, 10, 64])
def test_one_line_for_a_mode_is_exact_at_its_count_and_promises_no_more_elsewhere(count: int) -> None:
    (mode,) = modes(RUN_S, (4.0,), 64, square_root)
    (line,) = straight(mode, count, 64).lines
    assert throughput(line, count) == pytest.approx(rate(mode, count))
    assert all(throughput(line, n) <= rate(mode, n) + 1e-9 for n in range(line.least, 65))
