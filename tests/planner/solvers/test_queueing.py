"""Waits of k servers against what is known of them in closed form and by simulation, and the table over k."""

import heapq
import math
import random

import numpy as np
import pytest

from planner.solvers.queueing import NEARLY_BUSY, erlang_c, wait_table, waits


def test_one_server_is_found_busy_as_often_as_it_is() -> None:
    utilization = np.array([0.0, 0.3, 0.9])
    assert erlang_c([1], utilization)[0] == pytest.approx([0.0, 0.3, 0.9])


def test_erlang_c_has_its_known_values() -> None:
    """2 servers at a half: 1/3. 10 servers offered 8 Erlang: 0.4092, of any printed Erlang C table."""
    assert erlang_c([2], np.array([0.5]))[0, 0] == pytest.approx(1 / 3)
    assert erlang_c([2, 10], np.array([0.8]))[1, 0] == pytest.approx(0.4092, abs=1e-4)


def test_one_server_s_wait_is_that_of_m_m_1() -> None:
    """P(W > t) = rho exp(-(1 - rho) t) in run times."""
    found = waits([1], np.array([0.8]), percentile=0.9, variability=1.0)[0, 0]
    assert 0.8 * math.exp(-0.2 * found) == pytest.approx(0.1)


def test_the_percentile_is_near_that_of_a_simulated_queue_with_run_times_that_never_vary() -> None:
    simulated = _simulated(servers=4, utilization=0.85, percentile=0.95)
    assert wait_table(8, percentile=0.95, variability=0.5).wait(4, 0.85) == pytest.approx(simulated, rel=0.2)


def test_the_wait_rises_with_the_utilisation_and_falls_with_the_servers() -> None:
    table = wait_table(100, percentile=0.95)
    by_utilization = [table.wait(8, u / 20) for u in range(20)]
    assert by_utilization == sorted(by_utilization)
    by_servers = [table.wait(k, 0.9) for k in range(1, 101)]
    assert by_servers == sorted(by_servers, reverse=True)


def test_room_is_the_highest_utilisation_whose_wait_is_within_the_budget() -> None:
    table = wait_table(64, percentile=0.95)
    for servers in (1, 3, 16, 64):
        for budget in (0.0, 0.2, 1.0, 5.0):
            room = table.room(servers, budget)
            assert table.wait(servers, room) == pytest.approx(budget, abs=1e-9) or budget == 0
            assert table.wait(servers, min(room + 0.01, NEARLY_BUSY)) > budget


def test_more_servers_need_less_room() -> None:
    table = wait_table(1000)
    rooms = [table.room(k, 0.5) for k in (1, 2, 4, 16, 64, 256, 1000)]
    assert rooms == sorted(rooms)
    assert rooms[0] < 0.1
    assert rooms[-1] > 0.95


def test_run_times_that_vary_less_leave_less_to_wait_for() -> None:
    assert wait_table(8, variability=0.5).wait(8, 0.9) == pytest.approx(wait_table(8).wait(8, 0.9) / 2)


def test_without_a_server_there_is_no_room_and_no_end_of_waiting() -> None:
    table = wait_table(4)
    assert table.room(0, 100) == 0
    assert table.wait(0, 0.1) == math.inf


@pytest.mark.parametrize("utilization", [1.0, 1.5, math.nan])
def test_who_is_always_busy_is_waited_for_without_end(utilization: float) -> None:
    assert wait_table(4).wait(4, utilization) == math.inf


def test_a_budget_that_is_none_leaves_no_room_and_any_budget_not_all() -> None:
    table = wait_table(4)
    assert table.room(4, -1) == table.room(4, math.nan) == 0
    assert table.room(4, 1e9) == NEARLY_BUSY


def test_between_two_rows_of_a_large_table_the_smaller_number_holds() -> None:
    table = wait_table(1000)
    assert len(table.servers) < 200
    beyond = next(k for k in range(65, 1000) if k not in table.servers)
    assert table.wait(beyond, 0.9) == table.wait(max(k for k in table.servers if k < beyond), 0.9)


def test_a_table_is_made_once() -> None:
    assert wait_table(16, 0.9) is wait_table(16, 0.9)


def _simulated(servers: int, utilization: float, percentile: float, customers: int = 40_000) -> float:
    """The percentile of the wait in run times of 1, Poisson arrivals, one queue."""
    dice, now, found = random.Random(1), 0.0, []
    free = [0.0] * servers
    for _ in range(customers):
        now += dice.expovariate(servers * utilization)
        begins = max(now, heapq.heappop(free))
        heapq.heappush(free, begins + 1)
        found.append(begins - now)
    return float(np.quantile(found, percentile))
