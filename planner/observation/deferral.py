"""The observed deferral curve: f(t) by hardness band, from the confidences of recent images.

The routes in force decide which prompts reach a level, so shares over all its images do not apply to prompts that are
routed elsewhere; shares within a band of hardness do. Source: DiffServe 3.3, "updated during serving".
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from planner.catalog.entries import Curve, DeferralPoint

STEP = 0.01  # between the thresholds of a curve
ENOUGH = 100  # images in a band: the share below a threshold is then known to within .1 (two standard errors)


@dataclass(frozen=True, slots=True)
class ObservedDeferral:
    """The recent confidences of one discriminator in one level's images."""

    level: str
    discriminator: str
    bounds: tuple[float, ...]  # of the hardness bands, rising from 0 to 1
    curves: tuple[Curve | None, ...]  # one a band; None: too few images, so the catalog's holds
    images: int  # that were counted
    ignored: int = 0  # whose confidence or hardness is no number in [0, 1]


def observed_deferral(
    level: str,
    discriminator: str,
    scores: Iterable[tuple[float, float]],
    bounds: Sequence[float] = (0.0, 1.0),
    enough: int = ENOUGH,
) -> ObservedDeferral:
    """Estimate deferral from (hardness, confidence) of images. Pairs with NaN or a value outside [0, 1] are ignored."""
    bands: list[list[float]] = [[] for _ in range(len(bounds) - 1)]
    ignored = 0
    for hardness, confidence in scores:
        if 0 <= hardness <= 1 and 0 <= confidence <= 1:
            bands[min(bisect_right(bounds, hardness), len(bands)) - 1].append(confidence)
        else:
            ignored += 1
    curves = tuple(_curve(sorted(band)) if len(band) >= max(1, enough) else None for band in bands)
    return ObservedDeferral(level, discriminator, tuple(bounds), curves, sum(map(len, bands)), ignored)


def _curve(confidences: Sequence[float]) -> Curve:
    """Points where the curve changes, and the one before each, so that a flat piece stays flat."""
    thresholds = [at * STEP for at in range(round(1 / STEP))]
    shares = [DeferralPoint(t, bisect_left(confidences, t) / len(confidences)) for t in thresholds]
    points = [*shares, DeferralPoint(1.0, 1.0)]  # 1 keeps nothing
    return tuple(
        point
        for at, point in enumerate(points)
        if at in (0, len(points) - 1) or not points[at - 1].deferred == point.deferred == points[at + 1].deferred
    )
