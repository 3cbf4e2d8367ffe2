"""Arrivals from rates: at a constant one, along a curve of straight lines, or from a number for each interval."""

import itertools
import math
import random
from typing import Final, NamedTuple

import numpy as np

from replay.traces.trace import MAX_REQUESTS, InvalidTrace
from schemas.errors import Unknown

POISSON, EVEN, EXPONENTIAL = "poisson", "even", "exponential"
SPACINGS: Final = (POISSON, EVEN, EXPONENTIAL)


class Knot(NamedTuple):
    """A point at which a rate curve bends. Two knots at one time are a step."""

    at_s: float
    rate_rps: float


def constant(rate_rps: float, count: int) -> list[float]:
    """`count` arrivals, evenly spaced, the first at 0."""
    gap_ms = _gap_ms(rate_rps, count)
    return [i * gap_ms for i in range(count)]


def poisson(rate_rps: float, count: int, seed: int) -> list[float]:
    """`count` arrivals with exponential gaps of mean 1/rate, the first after a gap; the same for the same seed."""
    gap_ms = _gap_ms(rate_rps, count)
    dice = random.Random(seed)
    return list(itertools.accumulate(dice.expovariate(1 / gap_ms) for _ in range(count)))


def _gap_ms(rate_rps: float, count: int) -> float:
    if not (0 < rate_rps < math.inf and 1000 / rate_rps < math.inf):
        raise InvalidTrace(f"a rate is a number of requests per second above 0: got {rate_rps}")
    if count < 1:
        raise InvalidTrace(f"a trace has at least 1 request: got {count}")
    return 1000 / rate_rps


def along(curve: list[Knot], spacing: str, seed: int) -> np.ndarray:
    """Arrivals [n] in ms of a rate that changes along straight lines between knots, by inverting its integral.

    `poisson` draws how many come and where; `even` has one after every whole request of the integral. Times of the
    knots must not fall. Raises: InvalidTrace, Unknown.
    """
    at_s, rates = np.array(curve, dtype=np.float64).T
    assert len(curve) > 1, f"a curve has two knots: {curve}"
    assert bool((np.diff(at_s) >= 0).all()), f"not a curve over time: {curve}"
    if not (np.isfinite(rates).all() and bool((rates >= 0).all())):
        raise InvalidTrace(f"a rate is a number of requests per second, 0 or more: got {rates.tolist()}")
    area = np.concatenate([[0.0], np.cumsum(np.diff(at_s) * (rates[1:] + rates[:-1]) / 2)])
    _check_total(float(area[-1]))
    return 1000 * _inverse(at_s, rates, area, _levels(float(area[-1]), spacing, seed))


def _levels(total: float, spacing: str, seed: int) -> np.ndarray:
    if spacing == POISSON:
        dice = np.random.default_rng(seed)
        return np.asarray(np.sort(dice.uniform(0, total, dice.poisson(total))))
    if spacing == EVEN:
        return np.arange(math.floor(total + 0.5)) + 0.5
    raise Unknown("spacing", spacing, (POISSON, EVEN))


def _inverse(at_s: np.ndarray, rates: np.ndarray, area: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return when the integral reaches each level: y = r t + s t^2 / 2 on a line, in a form that needs no large s."""
    line = np.clip(np.searchsorted(area, levels, side="left") - 1, 0, len(at_s) - 2)
    width, rise = np.diff(at_s)[line], np.diff(rates)[line]
    slope = np.divide(rise, width, out=np.zeros_like(width), where=width > 0)
    y, r = np.maximum(levels - area[line], 0), rates[line]
    root = r + np.sqrt(np.maximum(r * r + 2 * slope * y, 0))
    t = np.divide(2 * y, root, out=np.zeros_like(y), where=root > 0)
    return np.asarray(at_s[line] + np.minimum(t, width))


def within(counts: np.ndarray, interval_s: float, spacing: str, seed: int, limit: int | None = None) -> np.ndarray:
    """Arrivals [n] in ms of counts (float64 [k], need not be whole) for intervals that follow each other.

    `poisson`: the count is its mean, the places are uniform. `even`: as many as that, evenly spaced; parts of a request
    are carried on. `exponential`: that many, rounded, gaps of mean interval / count after each other from the
    interval's start, which may run over its end; a gap longer than the interval loses its request. Source: DiffServe's
    artifact (shape/2_*.py), which made the published 4to32 and 1to28 traces so. Raises: InvalidTrace, Unknown.
    """
    if spacing not in SPACINGS:
        raise Unknown("spacing", spacing, SPACINGS)
    if limit is not None:  # intervals that cannot matter: well above what chance may leave out
        coming = np.round(counts) if spacing == EXPONENTIAL else counts
        counts = counts[: 1 + int(np.searchsorted(np.cumsum(coming), 2.0 * limit + 100))]
    _check_total(float(counts.sum()))
    starts, dice = np.arange(len(counts)) * interval_s, np.random.default_rng(seed)
    if spacing == POISSON:
        number = dice.poisson(counts)
        places = interval_s * dice.random(int(number.sum()))
    elif spacing == EVEN:
        number = np.diff(np.floor(np.concatenate([[0.0], np.cumsum(counts)]) + 0.5)).astype(np.int64)
        places = (_rank(number) + 0.5) * np.repeat(interval_s / np.maximum(number, 1), number)
    else:
        number = np.round(counts).astype(np.int64)
        gaps = dice.exponential(np.repeat(interval_s / np.maximum(number, 1), number))
        ends = np.cumsum(gaps)
        before = np.concatenate([[0.0], ends])[np.cumsum(number) - number]
        places = ends - np.repeat(before, number)
        kept = gaps <= interval_s
        return np.sort(1000 * (np.repeat(starts, number) + places)[kept])[:limit]
    return np.sort(1000 * (np.repeat(starts, number) + places))[:limit]


def _rank(number: np.ndarray) -> np.ndarray:
    """Return the rank, 0, 1 ..., within each group of these sizes."""
    first = np.cumsum(number) - number
    return np.asarray(np.arange(int(number.sum())) - np.repeat(first, number))


def _check_total(total: float) -> None:
    if not 0 <= total <= MAX_REQUESTS:
        message = f"these rates come to {total:,.0f} requests, more than {MAX_REQUESTS:,}"
        raise InvalidTrace(f"{message}: give --scale, --limit or, for counts, --to LOW:HIGH")
