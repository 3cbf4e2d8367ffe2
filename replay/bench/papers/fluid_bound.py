"""The best that any plan could reach: demand known beforehand, workers without queues, split and moved at no cost.

No queueing and no switching: an upper bound of every policy on requests whose hardness is spread evenly, as the papers'
catalogs have it. On easier requests a policy may be above it, so that reports do not have it.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from planner.catalog.bands import bounds_of
from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.observation.observation import Observation
from planner.solvers.joint.program.offers import Offer, Offers, offers_of


class Served(NamedTuple):
    """The best quality at one demand, and the share that is served."""

    quality: float  # mean of what is served
    share: float  # of the requests that are served


class Piece(NamedTuple):
    """A step from one way to serve a band to a dearer and better one."""

    slope: float  # quality a worker-second
    seconds: float  # worker-seconds per request of all bands
    quality: float  # gained per request of all bands


class Fluid(NamedTuple):
    """The least cost of requests, and the quality that more worker time buys, the best buys first."""

    cheapest_s: float  # worker-seconds per request, everything served in the cheapest way
    cheapest_quality: float  # mean of that
    pieces: tuple[Piece, ...]

    def at(self, demand_rps: float, workers: int) -> Served:
        """The best quality at a demand, all workers generating all the time."""
        seconds = workers / demand_rps if demand_rps > 0 else math.inf
        if seconds < self.cheapest_s:
            return Served(self.cheapest_quality, seconds / self.cheapest_s)
        left, quality = seconds - self.cheapest_s, self.cheapest_quality
        for piece in self.pieces:
            bought = min(1.0, left / piece.seconds)
            quality += bought * piece.quality
            left -= bought * piece.seconds
            if bought < 1:
                break
        return Served(quality, 1.0)


class Way(NamedTuple):
    """One way to serve a request of a hardness band."""

    seconds: float
    quality: float


def fluid_bound(
    catalog: Catalog, arrival_ms: np.ndarray, workers: int, slo_ms: float, period_ms: float
) -> float | None:
    """Return the best mean quality of the requests on a trace, each planning interval solved alone with known demand.

    `arrival_ms`: float64 [n]. On FID's scale, which is no mean over images, the mean of the intervals' qualities.
    Returns None where the quality of a level is not known, or no level answers within the SLO.
    """
    fluid = None if any(each.quality is None for each in catalog.variants.values()) else fluid_of(catalog, slo_ms)
    if fluid is None:
        return None
    counts = np.bincount((arrival_ms // period_ms).astype(np.int64))
    counts = counts[counts > 0]
    served = [fluid.at(1000 * count / period_ms, workers) for count in counts.tolist()]
    return float(np.average([each.quality for each in served], weights=counts * [each.share for each in served]))


def fluid_of(catalog: Catalog, slo_ms: float) -> Fluid | None:
    """Return the bound of each demand under an SLO, 0 for none; None where no level answers within it.

    Ways to serve are those of `offers_of`; each takes the batches that cost least of those whose calls, and judging
    between two of them, fit the SLO one after the other. Of two ways side by side the mean counts.
    """
    found = offers_of(catalog, Observation(now_ms=0, demand_rps=0.0, slo_ms=slo_ms), 0.0)
    costs = [_seconds(offer, found, catalog, slo_ms / 1000 or math.inf) for offer in found.offers]
    possible = [(cost, offer.quality) for cost, offer in zip(costs, found.offers, strict=True) if cost is not None]
    if not possible:
        return None
    shares = np.diff(bounds_of(catalog)).tolist()
    fronts = [_front([Way(float(s[c]), float(q[c])) for s, q in possible]) for c in range(len(shares))]
    cheapest_s, quality = np.array(shares) @ np.array([front[0] for front in fronts])
    pieces = [
        Piece(_slope(low, high), share * (high.seconds - low.seconds), share * (high.quality - low.quality))
        for share, front in zip(shares, fronts, strict=True)
        for low, high in itertools.pairwise(front)
        if share > 0
    ]
    return Fluid(float(cheapest_s), float(quality), tuple(sorted(pieces, reverse=True)))


def _front(points: Sequence[Way]) -> list[Way]:
    """Return the concave hull, from the cheapest to the best: each piece is flatter than the one before."""
    hull: list[Way] = []
    for point in sorted(points, key=lambda p: (p.seconds, -p.quality)):
        if hull and point.quality <= hull[-1].quality:
            continue
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-2], point):
            hull.pop()
        hull.append(point)
    return hull


def _slope(low: Way, high: Way) -> float:
    return (high.quality - low.quality) / (high.seconds - low.seconds)


def _seconds(offer: Offer, found: Offers, catalog: Catalog, slo_s: float) -> np.ndarray | None:
    """[C] worker-seconds per request in the batches that cost least; None where no batches fit the SLO."""
    gate = list(found.gates)[offer.option.gate]
    levels = [level for level in (gate.level, gate.next_level) if level >= 0]
    levels += [level for level in offer.images if level not in levels]
    ways = _ways(
        [_batches(catalog, found.levels[level]) for level in levels], slo_s - gate.extra_s, gate.next_level >= 0
    )
    if not ways:
        return None
    by_level = [offer.images.get(level, np.zeros(len(offer.quality))) for level in levels]
    each = [sum(p * s for p, s in zip(by_level, way, strict=True)) for way in ways]
    best = min(range(len(each)), key=lambda at: float(np.sum(each[at])))
    return np.asarray(each[best])


def _batches(catalog: Catalog, level: str) -> list[tuple[float, float]]:
    """(seconds of a call, seconds an image) of each measured batch size."""
    variant = catalog.level(level)
    return [(run_ms(variant, b) / 1000, run_ms(variant, b) / 1000 / b) for b in variant.latency_ms]


def _ways(batches: list[list[tuple[float, float]]], slo_s: float, is_cascade: bool) -> list[tuple[float, ...]]:
    """Seconds an image of each level, for every choice of batches that fits: one after the other in a cascade."""
    if len(batches) == 1:
        return [(each,) for call, each in batches[0] if call <= slo_s]
    pairs = [
        ((first, second), max(one, other) if not is_cascade else one + other)
        for one, first in batches[0]
        for other, second in batches[1]
    ]
    return [each for each, longest in pairs if longest <= slo_s]
