"""Chooses models to profile in pairs: three rules that prune a pool before any sweep. Source: HADIS 3.2.

The paper gives no numbers for "similar", "close" and "approximately": those here are ours and parameters.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ADJACENT, DOMINATED, INTERMEDIATE = "adjacent", "dominated", "intermediate"


class Candidate(NamedTuple):
    """A model of the pool."""

    name: str
    latency_ms: float  # of one image
    quality: float  # any scale, higher is better


class Tolerance(NamedTuple):
    """The differences below which the rules take two values as equal."""

    latency: float = 0.1  # two latencies within this share of the lesser are similar
    quality: float = 0.02  # two qualities within this share of the pool's range are, and a point on a segment
    close: float = 3.0  # ratio of the latencies of neighbours up to which they stand in for what is between


ALIKE = Tolerance()


def pruned(pool: Iterable[Candidate], tolerance: Tolerance = ALIKE) -> dict[str, str]:
    """name -> the rule that drops it, in the order of dropping; who is not named stays.

    First dominance, then adjacency (the better stays, of equals the quicker), then redundancy between two neighbours
    that stay. Source: HADIS 3.2; we differ in the order: what is dominated needs no other rule.
    """
    ordered = sorted(pool, key=lambda c: (c.latency_ms, -c.quality, c.name))
    scale = max((c.quality for c in ordered), default=0.0) - min((c.quality for c in ordered), default=0.0)
    slack = tolerance.quality * scale
    dropped: dict[str, str] = {}
    _dominated(ordered, dropped)
    _adjacent(_left(ordered, dropped), tolerance.latency, slack, dropped)
    _intermediate(_left(ordered, dropped), tolerance.close, slack, dropped)
    return dropped


def _dominated(ordered: Sequence[Candidate], dropped: dict[str, str]) -> None:
    best = float("-inf")
    for candidate in ordered:  # quicker ones come first
        if candidate.quality <= best:
            dropped[candidate.name] = DOMINATED
        best = max(best, candidate.quality)


def _adjacent(ordered: Sequence[Candidate], similar: float, slack: float, dropped: dict[str, str]) -> None:
    """Quality rises with latency here: of two alike the slower is the better one, and represents both."""
    for left, right in itertools.pairwise(ordered):
        if right.latency_ms <= left.latency_ms * (1 + similar) and right.quality - left.quality <= slack:
            dropped[left.name] = ADJACENT


def _intermediate(ordered: Sequence[Candidate], close: float, slack: float, dropped: dict[str, str]) -> None:
    staying = list(ordered)
    at = 1
    while at < len(staying) - 1:
        left, middle, right = staying[at - 1 : at + 2]
        along = (middle.latency_ms - left.latency_ms) / (right.latency_ms - left.latency_ms)
        on_segment = left.quality + along * (right.quality - left.quality)
        if right.latency_ms <= close * left.latency_ms and middle.quality <= on_segment + slack:
            dropped[middle.name] = INTERMEDIATE
            staying.pop(at)
        else:
            at += 1


def _left(ordered: Sequence[Candidate], dropped: dict[str, str]) -> list[Candidate]:
    return [candidate for candidate in ordered if candidate.name not in dropped]
