"""Draws the nearest stored neighbour of each request, and the time of each lookup, from a profile of reuse.

How prompts repeat is a probability by similarity, drawn for each request by itself: no index fills or empties.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from planner.catalog.reuse import Neighbours, ReuseProfile
from planner.reuse.guard import Verdict
from replay.simulation.draws.chance import uniform
from replay.simulation.draws.repeats import Repeats

CHUNK: Final = 8192  # requests drawn at once
TIMES: Final = 4096  # lookup times, after which they come again
SPREAD: Final = NormalDist().inv_cdf(0.95)  # standard deviations from the median to the 95th percentile
UNDRAWN: Final = -1
EXACT: Final = 0.9999  # similarity from which on a neighbour has the same prompt


class SampledNeighbour(NamedTuple):
    """The nearest neighbour of a request."""

    similarity: float  # cosine
    verdict: str  # how the facts of both prompts compare: a verdict, or a kind of difference


class NeighbourDraws:
    """The neighbour of each request by its number; a function of seed and request, whatever else is drawn."""

    def __init__(self, rows: Sequence[Neighbours], seed: int, repeats: Repeats | None = None) -> None:
        """`repeats`: of the trace; if known, a request finds an exact neighbour if and only if its prompt repeats."""
        if repeats is not None:
            rows = _without_exact(rows)
        self._rows, self._seed, self._repeats = rows, seed, repeats
        self._bounds = np.cumsum([row.share for row in rows])
        self._verdicts = [_table(row) for row in rows]
        self._first, self._drawn = UNDRAWN, list[SampledNeighbour | None]()

    def at(self, number: int) -> SampledNeighbour | None:
        """Return the neighbour of a request; None if none is stored."""
        if self._repeats is not None and self._repeats.is_repeated(number):
            return SampledNeighbour(1.0, Verdict.EQUAL.value)
        first = number - number % CHUNK
        if first != self._first:
            self._first, self._drawn = first, self._chunk(first)
        return self._drawn[number - first]

    def _chunk(self, first: int) -> list[SampledNeighbour | None]:
        places = np.searchsorted(self._bounds, uniform(self._seed, "neighbour", first, CHUNK), side="right")
        ranks = uniform(self._seed, "verdict", first, CHUNK)
        return [self._neighbour(place, rank) for place, rank in zip(places.tolist(), ranks.tolist(), strict=True)]

    def _neighbour(self, place: int, rank: float) -> SampledNeighbour | None:
        if place >= len(self._rows):
            return None
        verdict = next((name for name, until in self._verdicts[place] if rank < until), self._verdicts[place][-1][0])
        return SampledNeighbour(self._rows[place].similarity, verdict)


def _without_exact(rows: Sequence[Neighbours]) -> list[Neighbours]:
    """The rows of other prompts, with the shares that they have among themselves."""
    others = [row for row in rows if row.similarity < EXACT]
    left, whole = sum(row.share for row in others), sum(row.share for row in rows)
    exact = whole - left
    return [replace(row, share=row.share / (1 - exact)) for row in others] if left else []


def lookup_times_ms(profile: ReuseProfile, seed: int) -> list[float]:
    """Return times of lookups that are answered, log-normal by their median and 95th percentile."""
    median, high = profile.retrieval_ms, max(profile.retrieval_ms, profile.retrieval_p95_ms)
    if median <= 0:
        return [high] * TIMES
    sigma = math.log(high / median) / SPREAD
    normal = NormalDist()
    ranks = (uniform(seed, "lookup", 0, TIMES) + 0.5 / TIMES) / (1 + 1 / TIMES)  # never 0 or 1
    return [median * math.exp(sigma * normal.inv_cdf(rank)) for rank in ranks.tolist()]


def _table(row: Neighbours) -> list[tuple[str, float]]:
    """(verdict, share of the verdicts up to and with it)."""
    verdicts = row.verdicts or {Verdict.EQUAL.value: 1.0}
    return list(zip(verdicts, itertools.accumulate(verdicts.values()), strict=True))
