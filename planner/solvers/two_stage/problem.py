"""A cascade of two levels on S workers, as a problem: thresholds, workers and batches that reach the best score.

Source: DiffServe 3.3, Eqs. 1-5; HADIS 3.4, Eqs. 1-5. Both choose a row of a table (thresholds), workers and batches:

    x1 T1(b1) >= D light(row)      light generates what reaches it only, and is charged for that only
    x2 T2(b2) >= D work(row)       straight to it, and generated again, which over the draft takes part of the time
    x1 + x2 <= S                   and one worker at least where anything goes
    wait + e(b1) + judging + wait + e(b2) <= SLO      over the longest path that a request can take under the row

The rows are the settings of router and discriminator that a pair can be run with (`rows_of`). Source: HADIS 3.2,
"lookup-table construction". They are those that the catalog holds of the pair, else they come from its measured
deferral and quality by hardness band: a hardness threshold at each bound, a confidence threshold at each measured one.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.catalog.bands import (
    WHOLE,
    CascadeTable,
    Histogram,
    band_shares,
    cascade_table,
    hardness_of,
    level_quality,
    shares_within,
)  # fmt: skip
from planner.catalog.curves import PairRow
from planner.catalog.entries import highest_threshold
from planner.catalog.model import Catalog, Pair
from planner.observation.observation import Observation

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
        """T(b) = b / e(b), images a second of one busy worker."""
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
    deferred: float  # share of the drafts that heavy generates again, [0, 1]
    threshold: float = 0.0  # of the confidence; 1 keeps nothing
    hardness: float = 1.0  # from here on straight to heavy
    quality: float | None = None  # expected of all answers

    @property
    def light(self) -> float:
        """Share of requests that the light level generates."""
        return 1 - self.straight

    @property
    def heavy(self) -> float:
        """Share of requests that the heavy level generates, which answers them."""
        return self.straight + self.refined_share

    @property
    def refined_share(self) -> float:
        """Share of requests generated on both."""
        return self.light * self.deferred


@dataclass(frozen=True, slots=True)
class Problem:
    """The rows, batches and workers to choose from, and the demand."""

    light: Stage
    heavy: Stage
    rows: tuple[Row, ...]
    demand_rps: float  # over-provisioned; infinite: more than anything carries
    workers: int
    slo_ms: float = math.inf
    judging_ms: float = 0.0  # discriminator and hops, between the two levels
    over: float = 1.0  # part of heavy's run time that generating again takes: (N - K) / N from step K of the draft

    def work(self, row: Row) -> float:
        """Images from noise that heavy could generate for each request in the time that its share takes."""
        return row.straight + self.over * row.refined_share


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
        for shares in zip(*((row.light, row.straight, row.refined_share) for row in problem.rows), strict=True)
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


def rows_of(catalog: Catalog, pair: Pair, observation: Observation) -> tuple[Row, ...]:
    """Return the pair's rows, scored by expected quality, with the shares of recent traffic.

    A row fixes the thresholds; the share straight to heavy is that of recent prompts above its hardness, and the
    deferred share that of the others' drafts below its confidence, if observed. Quality is as measured, by recent
    hardness if it is known by band. A row of unknown quality is left out; if all are unknown, heavy's share is the
    score.
    """
    table = by_step(catalog, pair).get(pair.refine_from_step, [])
    found = tuple(_listed(catalog, pair, table, observation) if table else _swept(catalog, pair, observation))
    known = tuple(row for row in found if row.quality is not None)
    return known or found


def by_step(catalog: Catalog, pair: Pair) -> dict[int, list[PairRow]]:
    """The rows that the catalog holds of a pair, by the step from which heavy refines; {} of none."""
    own = next((p.refine_from_step for p in catalog.cascades if p.key == pair.key), pair.refine_from_step)
    found: dict[int, list[PairRow]] = {}
    for row in catalog.pair_rows:
        if row.is_of(pair.key):
            found.setdefault(own if row.refine_from_step is None else row.refine_from_step, []).append(row)
    return dict(sorted(found.items()))


def threshold_rows(catalog: Catalog, pair: Pair, observation: Observation) -> tuple[Row, ...]:
    """Return a row for each threshold with support, rising, 0 and 1 included, with all requests to light first.

    Support is a measured point of f(t), or one on each side of it. The threshold is the score. Source: DiffServe 3.3.
    """
    table, shares = cascade_table(catalog, pair, observation), band_shares(catalog, observation)
    rows = _rows(table, np.array(shares), np.zeros(len(shares)), len(shares))
    low, high = _support(catalog, pair)
    return tuple(
        Row(row.threshold, 0.0, row.deferred, row.threshold, quality=row.quality)
        for row in rows
        if row.threshold in (0, 1) or low <= row.threshold <= high
    )


def is_measured(catalog: Catalog, pair: Pair, threshold: float) -> bool:
    """Whether the catalog's f has this very threshold; 0 and 1 hold by definition."""
    measured = {point.threshold for point in catalog.discriminator(pair.discriminator).deferral}
    return threshold in measured | {0.0, 1.0}


def _support(catalog: Catalog, pair: Pair) -> tuple[float, float]:
    measured = [point.threshold for point in catalog.discriminator(pair.discriminator).deferral]
    return min(measured, default=1.0), max(measured, default=0.0)


def _listed(catalog: Catalog, pair: Pair, table: Sequence[PairRow], seen: Observation) -> Iterator[Row]:
    discriminator, shares = catalog.discriminator(pair.discriminator), band_shares(catalog, seen)
    is_seen = any((s.level, s.discriminator) == (pair.light, pair.discriminator) for s in seen.deferral)
    curves, requests = cascade_table(catalog, pair, seen) if is_seen else None, hardness_of(catalog, seen)
    for row in table:
        hardness = 1 - row.router_ratio if row.hardness is None else row.hardness
        threshold = highest_threshold(discriminator, row.disc_ratio) if row.threshold is None else row.threshold
        known = [share * q for share, q in zip(shares, row.quality_by_band, strict=False) if q is not None]
        quality = math.fsum(known) if len(known) == len(shares) else row.quality
        yield Row(
            score=quality,
            straight=shares_within(requests, WHOLE, hardness, 1.0)[0] if seen.hardness else row.router_ratio,
            deferred=_deferred_below(hardness, threshold, curves, requests) if curves else row.disc_ratio,
            threshold=threshold,
            hardness=hardness,
            quality=quality,
        )


def _deferred_below(hardness: float, threshold: float, curves: CascadeTable, seen: Histogram) -> float:
    """Return f(t) of the prompts easier than a hardness, weighted by each band's part: harder ones get no drafts."""
    easier = shares_within(seen, curves.bounds, 0.0, hardness)
    deferred = [float(np.interp(threshold, curves.thresholds, band)) for band in curves.deferred]
    drafts = math.fsum(easier)
    return math.fsum(x * f for x, f in zip(easier, deferred, strict=True)) / drafts if drafts > 0 else 0.0


def _swept(catalog: Catalog, pair: Pair, seen: Observation) -> Iterator[Row]:
    """Yield a row for every hardness bound with every threshold, and one for all requests straight to heavy."""
    table, shares = cascade_table(catalog, pair, seen), np.array(band_shares(catalog, seen))
    hard = np.array([level_quality(catalog, pair.heavy, band) for band in range(len(shares))], dtype=np.float64)
    for first_hard in range(1, len(shares) + 1):  # bands from this one on go straight to heavy
        yield from _rows(table, shares, hard, first_hard)
    quality = _known(float(shares @ hard))
    yield Row(1.0 if quality is None else quality, straight=1.0, deferred=0.0, hardness=0.0, quality=quality)


def _rows(table: CascadeTable, shares: Floats, hard: Floats, first_hard: int) -> Iterator[Row]:
    """A row for each threshold, with the bands from `first_hard` on straight to heavy, of quality `hard` there."""
    easy, straight = float(shares[:first_hard].sum()), float(shares[first_hard:].sum())
    again = shares[:first_hard] @ np.array(table.deferred[:first_hard])
    drafted = np.array(table.quality[:first_hard], dtype=np.float64)  # None becomes NaN
    qualities = shares[:first_hard] @ drafted + shares[first_hard:] @ hard[first_hard:]
    deferred = again / easy if easy else again
    for threshold, share, value in zip(table.thresholds, deferred.tolist(), qualities.tolist(), strict=True):
        quality = _known(value)
        score = straight + easy * share if quality is None else quality
        yield Row(score, straight, share, threshold, table.bounds[first_hard], quality)


def _known(quality: float) -> float | None:
    return None if math.isnan(quality) else quality
