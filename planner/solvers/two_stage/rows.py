"""The settings of router and discriminator that a pair can be run with: the table that a plan chooses a row from.

Source: HADIS 3.2, "lookup-table construction". From the rows that the catalog holds of the pair, else from its measured
deferral and quality by hardness band: a hardness threshold at each bound, a confidence threshold at each measured one.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from planner.catalog.bands import CascadeTable, band_shares, cascade_table, level_quality
from planner.catalog.curves import PairRow
from planner.catalog.entries import highest_threshold
from planner.catalog.parse import Catalog, Pair
from planner.observation.observation import Observation
from planner.solvers.two_stage.problem import Floats, Row


def rows_of(catalog: Catalog, pair: Pair, observation: Observation) -> tuple[Row, ...]:
    """The pair's rows, scored by expected quality, with the shares that the traffic of late gives them.

    A row fixes the thresholds; the share straight to heavy is that of the prompts now above its hardness, and the share
    deferred that of the others' drafts now below its confidence, where that was seen. Quality is as measured, by the
    hardness of late where it is known by band. A row of unknown quality is left out, unless all are: then the share
    that heavy paints is the score, as the best there is to go by.
    """
    table = by_step(catalog, pair).get(pair.paint_over_step, [])
    found = tuple(_listed(catalog, pair, table, observation) if table else _swept(catalog, pair, observation))
    known = tuple(row for row in found if row.quality is not None)
    return known or found


def by_step(catalog: Catalog, pair: Pair) -> dict[int, list[PairRow]]:
    """The rows that the catalog holds of a pair, by the step from which heavy paints over; {} of none."""
    own = next((p.paint_over_step for p in catalog.cascades if p.key == pair.key), pair.paint_over_step)
    found: dict[int, list[PairRow]] = {}
    for row in catalog.pair_rows:
        if (row.light, row.heavy) == (pair.light, pair.heavy):
            found.setdefault(own if row.paint_over_step is None else row.paint_over_step, []).append(row)
    return dict(sorted(found.items()))


def threshold_rows(catalog: Catalog, pair: Pair, observation: Observation) -> tuple[Row, ...]:
    """The pair with all requests to light first: a row for each threshold that has support, rising, 0 and 1 included.

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


def share_above(hardness: float, bins: Sequence[float]) -> float:
    """The share of requests at or above a hardness, from a histogram over [0, 1]; a bin is divided evenly."""
    edges = np.linspace(0, 1, len(bins) + 1)
    return float(np.interp(hardness, edges, np.append(np.cumsum(bins[::-1])[::-1], 0.0)))


def _listed(catalog: Catalog, pair: Pair, table: Sequence[PairRow], seen: Observation) -> Iterator[Row]:
    discriminator, shares = catalog.discriminator(pair.discriminator), band_shares(catalog, seen)
    is_seen = any((s.level, s.discriminator) == (pair.light, pair.discriminator) for s in seen.deferral)
    curves = cascade_table(catalog, pair, seen) if is_seen else None
    for row in table:
        hardness = 1 - row.router_ratio if row.hardness is None else row.hardness
        threshold = highest_threshold(discriminator, row.disc_ratio) if row.threshold is None else row.threshold
        known = [share * q for share, q in zip(shares, row.quality_by_band, strict=False) if q is not None]
        quality = math.fsum(known) if len(known) == len(shares) else row.quality
        yield Row(
            score=quality,
            straight=share_above(hardness, seen.hardness) if seen.hardness else row.router_ratio,
            deferred=_deferred_below(hardness, threshold, curves, seen) if curves else row.disc_ratio,
            threshold=threshold,
            hardness=hardness,
            quality=quality,
        )


def _deferred_below(hardness: float, threshold: float, curves: CascadeTable, seen: Observation) -> float:
    """f(t) of the prompts easier than a hardness, each band by what of it is: harder ones are no drafts."""
    bins = seen.hardness or (1.0,)
    easier = [share_above(min(low, hardness), bins) - share_above(min(high, hardness), bins)
              for low, high in itertools.pairwise(curves.bounds)]  # fmt: skip
    deferred = [float(np.interp(threshold, curves.thresholds, band)) for band in curves.deferred]
    drafts = math.fsum(easier)
    return math.fsum(x * f for x, f in zip(easier, deferred, strict=True)) / drafts if drafts > 0 else 0.0


def _swept(catalog: Catalog, pair: Pair, seen: Observation) -> Iterator[Row]:
    """Every bound with every threshold; with nothing left for light, one row."""
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
