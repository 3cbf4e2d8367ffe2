"""The best that any plan could reach: demand known beforehand, workers without queues, split and moved at no cost.

No queueing and no switching: an upper bound of every policy (planner/policies/SOURCES.md 7).
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from planner.catalog.bands import band_shares, bounds_of
from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.observation.observation import Observation
from planner.solvers.joint.program.offers import Offer, Offers, offers_of


class Served(NamedTuple):
    """The best quality at one demand, and the shares that are served and answered by the best level."""

    quality: float  # mean of what is served
    heavy: float  # share of the demand that the catalog's best level answers
    share: float  # of the requests that are served


class Piece(NamedTuple):
    """A step from one way to serve a band to a dearer and better one."""

    slope: float  # quality a worker-second
    seconds: float  # worker-seconds per request of all bands
    quality: float  # gained per request of all bands
    heavy: float  # more answers of the best level per request of all bands


class Fluid(NamedTuple):
    """The least cost of requests, and the quality that more worker time buys, the best buys first."""

    cheapest_s: float  # worker-seconds per request, everything served in the cheapest way
    cheapest_quality: float  # mean of that
    cheapest_heavy: float
    pieces: tuple[Piece, ...]

    def at(self, demand_rps: float, workers: int) -> Served:
        """The best quality at a demand, all workers generating all the time."""
        seconds = workers / demand_rps if demand_rps > 0 else math.inf
        if seconds < self.cheapest_s:
            return Served(self.cheapest_quality, self.cheapest_heavy, seconds / self.cheapest_s)
        left, quality, heavy = seconds - self.cheapest_s, self.cheapest_quality, self.cheapest_heavy
        for piece in self.pieces:
            bought = min(1.0, left / piece.seconds)
            quality, heavy = quality + bought * piece.quality, heavy + bought * piece.heavy
            left -= bought * piece.seconds
            if bought < 1:
                break
        return Served(quality, heavy, 1.0)


class Way(NamedTuple):
    """One way to serve a request of a hardness band."""

    seconds: float
    quality: float
    heavy: float  # share that the best level answers


class Fronts(NamedTuple):
    """The ways to serve a request of each hardness band that none betters, from the cheapest to the best."""

    by_band: tuple[tuple[Way, ...], ...]

    def mixed(self, shares: Sequence[float]) -> Fluid:
        """The bound for requests of which so large a share is of each band; `shares` sum to 1."""
        cheapest = np.array(shares) @ np.array([front[0] for front in self.by_band])
        pieces = [
            _piece(share, low, high)
            for share, front in zip(shares, self.by_band, strict=True)
            for low, high in itertools.pairwise(front)
            if share > 0
        ]
        seconds, quality, heavy = cheapest.tolist()
        return Fluid(seconds, quality, heavy, tuple(sorted(pieces, reverse=True)))


def fluid_of(catalog: Catalog, seen: Observation) -> Fluid | None:
    """The bound for prompts as hard as were seen, under the SLO seen; None where no level answers within it."""
    fronts = fronts_of(catalog, seen)
    return None if fronts is None else fronts.mixed(band_shares(catalog, seen))


def fronts_of(catalog: Catalog, seen: Observation) -> Fronts | None:
    """The ways to serve under the SLO seen, whatever the prompts' hardness; None where no level answers within it.

    Ways to serve are those that `joint` is offered; each takes the batches that cost least of those whose calls, and
    judging between two of them, fit the SLO one after the other. Of two ways side by side the mean counts.
    """
    found = offers_of(catalog, seen, 0.0)
    slo_s = seen.slo_ms / 1000 or math.inf
    best = found.levels.index(catalog.best().name)
    costs = [_seconds(offer, found, catalog, slo_s) for offer in found.offers]
    possible = [
        np.stack([cost, offer.quality, _heavy(offer, found, best)])
        for cost, offer in zip(costs, found.offers, strict=True)
        if cost is not None
    ]
    if not possible:
        return None
    bands = range(len(bounds_of(catalog)) - 1)
    return Fronts(tuple(tuple(_front([Way(*way[:, c].tolist()) for way in possible])) for c in bands))


def _heavy(offer: Offer, found: Offers, best: int) -> np.ndarray:
    """[C] share of the answers that the best level generates; a floor, as refining a draft takes fewer steps."""
    gate = list(found.gates)[offer.option.gate]
    answers = best in (gate.level if gate.next_level < 0 else gate.next_level, offer.option.straight_to)
    generated = offer.images.get(best, np.zeros(len(offer.quality)))
    return np.minimum(1.0, generated) if answers else np.zeros(len(offer.quality))


def _piece(share: float, low: Way, high: Way) -> Piece:
    seconds, quality = high.seconds - low.seconds, high.quality - low.quality
    return Piece(quality / seconds, share * seconds, share * quality, share * (high.heavy - low.heavy))


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
