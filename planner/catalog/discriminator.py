"""A discriminator and its deferral curve f(t): the share of pictures with a confidence below t (DiffServe 3.3)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from planner.catalog.validate import is_amount, is_share, require
from schemas.errors import Unknown

ENGINES = ("learned", "profile")


class DeferralPoint(NamedTuple):
    """One measured point of f(t)."""

    threshold: float  # t, [0, 1]
    deferred: float  # f(t), [0, 1]


Curve = tuple[DeferralPoint, ...]  # thresholds ascending


@dataclass(frozen=True)
class Discriminator:
    """What scores the pictures of a cascade's first level. Refuses impossible values."""

    name: str
    engine: str  # "learned" | "profile"
    folder: str  # relative to infra/; "" for profile
    threshold: float  # default, [0, 1]
    deferral: tuple[DeferralPoint, ...]  # thresholds ascending; f(0) = 0 and f(1) = 1 always hold
    latency_ms: float  # one picture

    def __post_init__(self) -> None:
        where = f"discriminator {self.name!r}:"
        if self.engine not in ENGINES:
            raise Unknown("engine", self.engine, ENGINES)
        require(bool(self.folder) or self.engine == "profile", f"{where} folder", self.folder, "named", "give a folder")
        require(is_share(self.threshold), f"{where} threshold", self.threshold, "in [0, 1]", "correct it")
        require(is_amount(self.latency_ms), f"{where} latency_ms", self.latency_ms, ">= 0", "measure again")
        self._check_curve(f"{where} deferral")

    def _check_curve(self, where: str) -> None:
        for point in self.deferral:
            inside = is_share(point.threshold) and is_share(point.deferred)
            require(inside, where, tuple(point), "in [0, 1]", "correct the point")
        for left, right in itertools.pairwise(self.deferral):
            rises = left.threshold < right.threshold and left.deferred <= right.deferred
            require(rises, where, (tuple(left), tuple(right)), "monotone", "sort or smooth the curve")


def deferred_share(discriminator: Discriminator, threshold: float) -> float:
    """f(t): linear between the measured points, f(0) = 0, f(1) = 1 (at 1 every picture is painted again)."""
    for left, right in _segments(discriminator.deferral):
        if threshold < right.threshold:
            along = (threshold - left.threshold) / (right.threshold - left.threshold)
            return left.deferred + along * (right.deferred - left.deferred)
    return 1.0


def highest_threshold(discriminator: Discriminator, share: float) -> float:
    """The highest t with f(t) <= share (share >= 0): what a heavy level that can take this share allows."""
    for left, right in _segments(discriminator.deferral):
        if share < right.deferred:
            along = (share - left.deferred) / (right.deferred - left.deferred)
            return left.threshold + along * (right.threshold - left.threshold)
    return 1.0


def shares_below(curve: Curve, thresholds: Sequence[float]) -> tuple[float, ...]:
    """f(t) of any curve at many thresholds at once."""
    inner = [point for point in curve if 0 < point.threshold < 1]
    known = [0.0, *(point.threshold for point in inner), 1.0], [0.0, *(point.deferred for point in inner), 1.0]
    return tuple(np.interp(thresholds, *known).tolist())


def _segments(curve: Curve) -> list[tuple[DeferralPoint, DeferralPoint]]:
    inner = [point for point in curve if 0 < point.threshold < 1]
    points = [DeferralPoint(0.0, 0.0), *inner, DeferralPoint(1.0, 1.0)]
    return list(itertools.pairwise(points))
