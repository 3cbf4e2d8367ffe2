"""Tabulates the wait at a utilisation: k equal servers with one queue, by k.

Little's law (`observation.queue_wait_ms`) gives the wait of a queue that is there; Erlang C the wait that will
come before there is one. Least-work dispatch nearly makes a level's workers one queue (SOURCES.md 5). With
batches of b a customer is a call, so that its run time is e(b). Waits are in mean run times, which have no unit to mix.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EVERY = 64  # servers up to which each number has its own row; beyond, one every two per cent
STEPS = 160  # utilisations in a row, closer together towards 1
NEARLY_BUSY = 0.999  # the highest utilisation of a table


def erlang_c(servers: Sequence[int], utilization: Floats) -> Floats:
    """The share of arrivals that find all servers busy: [k, u] for k rising numbers of servers, u utilisations.

    Utilisations are in [0, 1), arrivals Poisson. By the recursion of Erlang B, which does not overflow.
    """
    numbers = np.asarray(servers)
    offered = numbers[:, None] * utilization
    blocked = np.ones_like(offered)
    for k in range(1, int(numbers[-1]) + 1):
        rest = slice(int(np.searchsorted(numbers, k)), None)  # the rows that have a k-th server
        busy = offered[rest] * blocked[rest]
        blocked[rest] = busy / (k + busy)
    waiting: Floats = blocked / (1 - utilization * (1 - blocked))
    return waiting


def waits(servers: Sequence[int], utilization: Floats, percentile: float, variability: float) -> Floats:
    """The percentile of the wait in mean run times: [k, u], as in `erlang_c`.

    `variability` is (ca2 + cs2) / 2, the mean of the squared coefficients of variation of the times between arrivals
    and of the run times: 1 for M/M/k, where this is exact, 0.5 for run times that never vary. Those who wait do so for
    an exponential time whose mean makes the mean wait that of Allen-Cunneen.
    """
    waiting = erlang_c(servers, utilization)
    mean_of_waiting = variability / (np.asarray(servers)[:, None] * (1 - utilization))
    beyond = np.log(np.maximum(waiting / (1 - percentile), 1.0))  # 0: more than the percentile never waits
    found: Floats = beyond * mean_of_waiting
    return found


@dataclass(frozen=True, slots=True, eq=False)
class WaitTable:
    """The `waits` of 1 .. n servers, linear between two utilisations, so a little too high; made by `wait_table`."""

    servers: tuple[int, ...]  # one a row, rising; a number between two has the waits of the smaller
    utilization: Floats  # [STEPS], rising from 0 to NEARLY_BUSY
    waits: Floats  # [rows, STEPS] in mean run times

    def wait(self, servers: int, utilization: float) -> float:
        """The percentile of the wait in mean run times; infinite without a server or above the table's end."""
        if servers < 1 or not utilization <= NEARLY_BUSY:
            return math.inf
        return float(np.interp(utilization, self.utilization, self._row(servers)))

    def room(self, servers: int, budget: float) -> float:
        """The highest utilisation at which the wait is within `budget` mean run times; 0 without a server."""
        if servers < 1 or not budget >= 0:
            return 0.0
        row = self._row(servers)
        after = int(np.searchsorted(row, budget, side="right"))
        if after == len(row):
            return NEARLY_BUSY
        low, high = float(row[after - 1]), float(row[after])
        left, right = float(self.utilization[after - 1]), float(self.utilization[after])
        return left + (right - left) * (budget - low) / (high - low)

    def _row(self, servers: int) -> Floats:
        at = int(np.searchsorted(self.servers, servers, side="right")) - 1
        found: Floats = self.waits[at]
        return found


@lru_cache(maxsize=64)
def wait_table(most_servers: int, percentile: float = 0.99, variability: float = 1.0) -> WaitTable:
    """Return the table for 1 .. `most_servers` servers; `percentile` in [0, 1), `variability` as in `waits`.

    Computed once for the same arguments: about 40 ms for 64 servers, 0.2 s for 1,000.
    """
    assert most_servers >= 1, f"{most_servers} servers"
    assert 0 <= percentile < 1, f"percentile {percentile}"
    assert variability >= 0, f"variability {variability}"
    numbers, k = [], 1
    while k <= most_servers:
        numbers.append(k)
        k = k + 1 if k < EVERY else math.ceil(k * 1.02)
    utilization = 1 - np.geomspace(1.0, 1 - NEARLY_BUSY, STEPS)
    return WaitTable(tuple(numbers), utilization, waits(numbers, utilization, percentile, variability))
