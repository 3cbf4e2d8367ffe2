"""Deferral and quality by hardness band, for any catalog: one band of all prompts where nothing is known apart.

These are phi[c, l, t], Q_keep[c, l, t] and Q[c, h] of planner/policies/SOURCES.md 7, where c is a band.
"""

import itertools
import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from planner.catalog.entries import Curve, shares_below, variant_of
from planner.catalog.measured import CascadeBands, Row, Shares
from planner.catalog.model import Catalog, Pair
from planner.catalog.quality import cascade_quality
from planner.observation.deferral import ObservedDeferral
from planner.observation.observation import BINS, Observation

WHOLE = (0.0, 1.0)  # the bounds of one band of all prompts
MIN_THRESHOLDS = 20  # measured thresholds


@dataclass(frozen=True, slots=True)
class CascadeTable:
    """A cascade by band c and threshold t, thresholds rising from 0 to 1. Qualities on the catalog's scale."""

    pair: Pair  # whose refine_from_step counts
    bounds: Row  # of the bands, hardness rising from 0 to 1
    thresholds: Row
    deferred: tuple[Row, ...]  # phi[c][t], share of light's pictures painted again
    kept: tuple[Shares, ...]  # Q_keep[c][t]; None: not known apart
    again: tuple[Shares, ...]  # of what heavy then paints; None: not known apart
    quality: tuple[Shares, ...]  # of all answers, where all of the band goes through it; None: unknown


class CurveRow(NamedTuple):
    """A cascade at one threshold, every request painted by light first."""

    threshold: float  # t, [0, 1]
    deferred: float  # f(t)
    heavy: float  # share of requests that heavy paints: f(t), as none goes there first
    quality: float | None  # of all answers; None: unknown


def bounds_of(catalog: Catalog) -> Row:
    """Hardness bounds of the bands, rising from 0 to 1."""
    return catalog.measured.bounds if catalog.measured else WHOLE


def band_shares(catalog: Catalog, observation: Observation | None = None) -> Row:
    """p[c]: share of requests a band, sums to 1; a bin of the histogram that spans a bound is divided evenly.

    Where hardness was not seen it is as in the reference set, of which it is a quantile: a band's share is its width.
    """
    bounds = bounds_of(catalog)
    bins = (observation.hardness if observation else ()) or (1 / BINS,) * BINS
    edges = [at / len(bins) for at in range(len(bins) + 1)]
    masses = [
        sum(
            share * max(0.0, min(high, right) - max(low, left)) / (right - left)
            for share, (left, right) in zip(bins, itertools.pairwise(edges), strict=True)
        )
        for low, high in itertools.pairwise(bounds)
    ]
    return tuple(mass / sum(masses) for mass in masses)


def level_quality(catalog: Catalog, level: str, band: int) -> float | None:
    """Q[c, l], the mean over a band of prompts; of a catalog without bands, over all. "heavy~k4" is a level too."""
    measured = catalog.measured
    known = measured.quality.get(level, ()) if measured else ()
    if known and known[band] is not None:
        return known[band]
    variant = variant_of(level)
    if variant == level:
        return catalog.level(level).quality
    return next((s.quality for s in catalog.reuse.get(variant, ()) if f"{variant}~k{s.k}" == level), None)


def cascade_table(catalog: Catalog, pair: Pair, observation: Observation | None = None) -> CascadeTable:
    """What is known of a cascade, with the deferral that `observation` saw where it saw enough.

    Quality of all answers is the published curve's at the heavy share where one was measured, which holds for one
    band; else (1 - phi) kept + phi again, each the level's own mean over the band where it is not known apart.
    """
    seen, key = _observed_deferral(observation, pair), ("cascade table", pair)
    if seen is not None:
        return _cascade_table(catalog, pair, seen)
    if key not in catalog.derived:
        catalog.derived[key] = _cascade_table(catalog, pair, None)
    table: CascadeTable = catalog.derived[key]
    return table


def _cascade_table(catalog: Catalog, pair: Pair, seen: ObservedDeferral | None) -> CascadeTable:
    bounds, known = bounds_of(catalog), catalog.measured.cascades.get(pair.key) if catalog.measured else None
    thresholds = known.thresholds if known else _thresholds(catalog, pair)
    bands = range(len(bounds) - 1)
    deferred = tuple(_deferred(catalog, pair, known, band, thresholds, seen) for band in bands)
    none: Shares = (None,) * len(thresholds)
    kept = tuple(known.kept[c] if known and known.kept else none for c in bands)
    again = tuple(_refined(known, pair.refine_from_step, c, _max_quality(catalog)) if known else none for c in bands)
    return CascadeTable(
        pair, bounds, thresholds, deferred, kept, again,
        quality=tuple(_quality(catalog, pair, c, deferred[c], kept[c], again[c]) for c in bands),
    )  # fmt: skip


def curve_rows(catalog: Catalog, pair: Pair, observation: Observation | None = None) -> tuple[CurveRow, ...]:
    """A cascade that paints every request on light first, at each threshold, 0 and 1 included, rising.

    Shares and quality are the bands' by the hardness seen.
    """
    table, bands = cascade_table(catalog, pair, observation), band_shares(catalog, observation)
    deferred = [_over(bands, shares) or 0.0 for shares in zip(*table.deferred, strict=True)]
    qualities = [_over(bands, shares) for shares in zip(*table.quality, strict=True)]
    columns = zip(table.thresholds, deferred, qualities, strict=True)
    return tuple(CurveRow(threshold, share, share, quality) for threshold, share, quality in columns)


def _over(bands: Row, values: Shares) -> float | None:
    known = [share * value for share, value in zip(bands, values, strict=True) if value is not None]
    return math.fsum(known) if len(known) == len(values) else None


def _thresholds(catalog: Catalog, pair: Pair) -> Row:
    """Those measured; where they are few, f(t) = t for one, every .05 between them too, as f is linear there."""
    measured = {point.threshold for point in catalog.discriminator(pair.discriminator).deferral}
    between = {at / MIN_THRESHOLDS for at in range(MIN_THRESHOLDS + 1)} if len(measured) < MIN_THRESHOLDS else set()
    return tuple(sorted({0.0, 1.0} | measured | between))


def _max_quality(catalog: Catalog) -> float:
    """The highest quality there is: a difference measured on other prompts must not lead beyond it."""
    return 1.0 if catalog.scale == "facts" else math.inf


def _observed_deferral(observation: Observation | None, pair: Pair) -> ObservedDeferral | None:
    seen = observation.deferral if observation else ()
    return next((s for s in seen if (s.level, s.discriminator) == (pair.light, pair.discriminator)), None)


def _deferred(
    catalog: Catalog, pair: Pair, known: CascadeBands | None, band: int, thresholds: Row, seen: ObservedDeferral | None
) -> Row:
    bounds = bounds_of(catalog)
    curve = _curve_at(seen, (bounds[band] + bounds[band + 1]) / 2) if seen else None
    if curve is not None:
        return shares_below(curve, thresholds)
    if known:
        return known.deferred[band]
    return shares_below(catalog.discriminator(pair.discriminator).deferral, thresholds)


def _curve_at(seen: ObservedDeferral, hardness: float) -> Curve | None:
    band = min(bisect_right(seen.bounds, hardness), len(seen.bounds) - 1) - 1
    return seen.curves[band]


def _refined(known: CascadeBands, step: int, band: int, most: float) -> Shares:
    """On a blank, and what beginning at the step adds: as measured at it, or at the next later one."""
    whole = known.again[band] if known.again else (None,) * len(known.thresholds)
    if step == 0:
        return whole
    measured = min((k for k in known.painted_over if k >= step), default=0)
    change = known.painted_over[measured][band] if measured else None
    return tuple(None if q is None or change is None else min(most, q + change) for q in whole)


def _quality(catalog: Catalog, pair: Pair, band: int, deferred: Row, kept: Shares, again: Shares) -> Shares:
    if pair.key in catalog.curves and catalog.curves[pair.key].judged:
        return tuple(cascade_quality(catalog, pair, share) for share in deferred)
    light, heavy = level_quality(catalog, pair.light, band), level_quality(catalog, pair.heavy, band)
    return tuple(
        _mixed(share, q_kept if q_kept is not None else light, q_again if q_again is not None else heavy)
        for share, q_kept, q_again in zip(deferred, kept, again, strict=True)
    )


def _mixed(share: float, kept: float | None, again: float | None) -> float | None:
    return None if kept is None or again is None else (1 - share) * kept + share * again
