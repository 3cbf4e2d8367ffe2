"""The best answer to a two-stage problem by looking at every row, pair of batches and split.

Of the splits and batches that reach the same score, the one with the least load on its busier level is taken, then on
the other, then the least latency: run times are those of full batches, and a worker that finds one job begins at once.
Where facts/mission-table.md A.12 puts latency first, that would leave no room for a burst.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.solvers.two_stage.problem import Answer, Floats, Problem, Row, latencies, needs

NO_DEMAND_RPS = 1e-6  # in place of no demand, so that the split follows the work there would be


class _Fit(NamedTuple):
    """A row and a pair of batches that fit."""

    row: Row
    batches: tuple[int, int]
    least: tuple[int, int]  # workers that light and heavy need
    latency_ms: float


def solve(problem: Problem, at_home: tuple[int, int] = (0, 0), move_cost: float = 0.0) -> Answer | None:
    """The fitting answer of the highest score; None where no row fits, which is an answer too.

    `at_home` workers are on light and heavy already: among equal scores, each that must move counts as `move_cost` of
    utilisation. All workers are used. Exact: every row, pair of batches and split is looked at.
    """
    costed = [_split(problem, fit, at_home, move_cost) for fit in _fits(problem)]
    return min(costed, key=lambda answer: answer[0])[1] if costed else None


def best_row(problem: Problem) -> Row | None:
    """The row of `solve`, at a fraction of its time: the first of the highest score that fits."""
    fits = _fits(problem)
    return fits[0].row if fits else None


def _fits(problem: Problem) -> list[_Fit]:
    """Everything of the highest score that fits."""
    if not (problem.rows and problem.light.run_ms and problem.heavy.run_ms):
        return []
    light, heavy = needs(problem)
    latency = latencies(problem)
    fits = (light[:, :, None] + heavy[:, None, :] <= problem.workers) & (latency <= problem.slo_ms)
    score = np.where(fits.any(axis=(1, 2)), [row.score for row in problem.rows], -np.inf)
    return [
        _Fit(
            problem.rows[row],
            (problem.light.run_ms[b1][0], problem.heavy.run_ms[b2][0]),
            (int(light[row, b1]), int(heavy[row, b2])),
            float(latency[row, b1, b2]),
        )
        for row, b1, b2 in np.argwhere(fits & (score == score.max())[:, None, None]).tolist()
    ]


def _split(problem: Problem, fit: _Fit, at_home: tuple[int, int], move_cost: float) -> tuple[tuple[float, ...], Answer]:
    """The best way to divide all workers, with what orders it among others."""
    ones = _splits(problem, fit.least, at_home)
    twos = problem.workers - ones
    demand = max(problem.demand_rps, NO_DEMAND_RPS)
    light = _load(demand * fit.row.light / problem.light.throughput_rps(fit.batches[0]), ones)
    heavy = _load(demand * problem.work(fit.row) / problem.heavy.throughput_rps(fit.batches[1]), twos)
    moved = np.maximum(0, ones - at_home[0]) + np.maximum(0, twos - at_home[1])
    busier, other = np.maximum(light, heavy) + move_cost * moved, np.minimum(light, heavy)
    best = int(np.lexsort((moved, other, busier))[0])
    workers, loads = (int(ones[best]), int(twos[best])), (float(light[best]), float(heavy[best]))
    order = (float(busier[best]), float(other[best]), fit.latency_ms, float(moved[best]), *fit.batches)
    return order, Answer(fit.row, workers, fit.batches, loads, fit.latency_ms)


def _splits(problem: Problem, least: tuple[int, int], at_home: tuple[int, int]) -> NDArray[np.int64]:
    """Numbers of workers on light to compare. A level that gets no share keeps spare workers for its backlog alone."""
    light, heavy = least
    if light and heavy:
        return np.arange(light, problem.workers - heavy + 1)
    idle, home = (problem.heavy, at_home[1]) if light else (problem.light, at_home[0])
    kept = min(home, problem.workers - light - heavy) if idle.wait_ms > 0 else 0
    return np.array([problem.workers - kept if light else kept])


def _load(busy: float, workers: NDArray[np.int64]) -> Floats:
    """Utilisation of each number of workers; 0 without work."""
    found: Floats = busy / np.maximum(workers, 1) if busy > 0 else np.zeros(len(workers))
    return found
