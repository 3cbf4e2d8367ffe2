"""A cascade of two levels on S workers, as a problem: thresholds, workers and batches that reach the best score.

Source: DiffServe 3.3, Eqs. 1-5; HADIS 3.4, Eqs. 1-5. Both choose a row of a table (thresholds), workers and batches:

    x1 T1(b1) >= D light(row)      light paints what reaches it only, and is charged for that only
    x2 T2(b2) >= D work(row)       straight to it, and painted again, which over the draft takes part of the time
    x1 + x2 <= S                   and one worker at least where anything goes
    wait + e(b1) + judging + wait + e(b2) <= SLO      over the longest path that a request can take under the row
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-9  # what rounding adds to a whole number of workers needs no further one


@dataclass(frozen=True, slots=True)
class Stage:
    """A level with its run times. What is no time is left out, so a stage may have none (`stage` makes it)."""

    name: str
    run_ms: tuple[tuple[int, float], ...]  # (batch size, ms of a call), by batch size
    wait_ms: float = 0.0  # of the queue that is there
    wait_runs: float = 0.0  # of a queue reckoned in run times: the wait is added for it

    def latency_ms(self, batch: int, part: float = 1.0) -> float:
        """Wait and run time of a batch size that the stage has, for jobs that take this part of its run time."""
        return self.wait_ms + (1 + self.wait_runs) * part * dict(self.run_ms)[batch]

    def throughput_rps(self, batch: int) -> float:
        """T(b) = b / e(b), pictures a second of one busy worker."""
        return 1000 * batch / dict(self.run_ms)[batch]


def stage(name: str, run_ms: Mapping[int, float], wait_ms: float = 0.0, wait_runs: float = 0.0) -> Stage:
    """A stage of the usable run times: a time that is not finite or not above 0 is a hole, not a measurement."""
    usable = sorted((b, ms) for b, ms in run_ms.items() if b >= 1 and math.isfinite(ms) and ms > 0)
    return Stage(name, tuple(usable), wait_ms, wait_runs)


@dataclass(frozen=True, slots=True)
class Row:
    """A setting of the thresholds and what it does to the requests."""

    score: float  # what is maximised
    straight: float  # share of requests that go to heavy without a draft, [0, 1]
    deferred: float  # share of the drafts that heavy paints again, [0, 1]
    threshold: float = 0.0  # of the confidence; 1 keeps nothing
    hardness: float = 1.0  # from here on straight to heavy
    quality: float | None = None  # expected of all answers

    @property
    def light(self) -> float:
        """Share of requests that the light level paints."""
        return 1 - self.straight

    @property
    def heavy(self) -> float:
        """Share of requests that the heavy level paints, which answers them."""
        return self.straight + self.again

    @property
    def again(self) -> float:
        """Share of requests painted on both."""
        return self.light * self.deferred


@dataclass(frozen=True, slots=True)
class Problem:
    """What there is to choose from, for which demand."""

    light: Stage
    heavy: Stage
    rows: tuple[Row, ...]
    demand_rps: float  # over-provisioned; infinite: more than anything carries
    workers: int
    slo_ms: float = math.inf
    judging_ms: float = 0.0  # discriminator and hops, between the two levels
    over: float = 1.0  # part of heavy's run time that painting again takes: (N - K) / N from step K of the draft

    def work(self, row: Row) -> float:
        """Pictures on a blank that heavy could paint for each request in the time that its share takes."""
        return row.straight + self.over * row.again


@dataclass(frozen=True, slots=True)
class Answer:
    """A row, workers and batches."""

    row: Row
    workers: tuple[int, int]  # light, heavy
    batches: tuple[int, int]  # most jobs at once on light, heavy
    loads: tuple[float, float]  # utilisation of light, heavy
    latency_ms: float  # along the longest path, with full batches


def latencies(problem: Problem) -> Floats:
    """ms along the longest path under each row and pair of batches, [row, light batch, heavy batch]."""
    light = np.array([problem.light.latency_ms(b) for b, _ in problem.light.run_ms])[None, :, None]
    heavy, again = (
        np.array([problem.heavy.latency_ms(b, part) for b, _ in problem.heavy.run_ms])[None, None, :]
        for part in (1.0, problem.over)
    )
    drafts, direct, both = (
        np.array([share > 0 for share in shares])[:, None, None]
        for shares in zip(*((row.light, row.straight, row.again) for row in problem.rows), strict=True)
    )
    one = np.maximum(np.where(drafts, light + problem.judging_ms, 0.0), np.where(direct, heavy, 0.0))
    found: Floats = np.maximum(np.where(both, light + problem.judging_ms + again, 0.0), one)
    return found


def needs(problem: Problem) -> tuple[Floats, Floats]:
    """Workers of light and of heavy for each row and batch, [row, batch]: x T(b) >= D share; one where there is any."""
    rows = problem.rows
    return (
        _needs(problem.light, problem.demand_rps, [row.light for row in rows]),
        _needs(problem.heavy, problem.demand_rps, [problem.work(row) for row in rows]),
    )


def _needs(level: Stage, demand_rps: float, shares: Sequence[float]) -> Floats:
    share = np.array(shares)[:, None]
    speeds = np.array([level.throughput_rps(b) for b, _ in level.run_ms])
    busy = np.maximum(1.0, np.ceil(demand_rps * share / speeds - ROUNDING))
    needed: Floats = np.where(share > 0, busy, 0.0)
    return needed
