"""Measurements of cascades that cannot be computed from their levels: quality by heavy share, and whole settings.

FID is no mean over images: over the share that the heavy level generates it falls and rises again (SOURCES.md 4),
so a curve is interpolated between its own points and never replaced by a mixture of its ends.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from planner.catalog.measured import CascadeKey
from planner.catalog.validate import is_amount, is_share, require

_CORRECT = "correct the row"


class SharePoint(NamedTuple):
    """The quality of all answers when the heavy level generates a share of them."""

    heavy: float  # [0, 1], of the requests
    quality: float  # on the catalog's scale, higher is better


class CascadeCurves(NamedTuple):
    """A cascade's quality by heavy share, shares rising; () if it was not measured."""

    judged: tuple[SharePoint, ...] = ()  # the discriminator says which requests are the heavy ones
    random: tuple[SharePoint, ...] = ()  # a coin does


class PairRow(NamedTuple):
    """A setting of router and discriminator on a pair, as it was measured. Source: HADIS 3.2, the offline table."""

    light: str
    heavy: str
    router_ratio: float  # r: share of requests that go straight to heavy, [0, 1]
    disc_ratio: float  # d: share of light's images that heavy generates again, [0, 1]
    latency_ms: float  # expected generation time of a request, batch 1, empty queues
    quality: float  # of all answers, on the catalog's scale
    hardness: float | None = None  # theta: from here on straight to heavy; None: 1 - r, hardness being a quantile
    threshold: float | None = None  # tau: below it generated again; None: where f(t) reaches d
    refine_from_step: int | None = None  # of heavy's steps, where it begins with the draft; None: the pair's own
    quality_by_band: tuple[float | None, ...] = ()  # of hardness; None: no prompt there. (): not known apart
    discriminator: str = ""  # that was measured with; "": the only one of the two levels

    def is_of(self, key: CascadeKey) -> bool:
        """Whether it is a setting of this cascade."""
        return (self.light, self.heavy) == key[:2] and self.discriminator in ("", key.discriminator)

    @property
    def light_share(self) -> float:
        """Share of requests that the light level generates: 1 - r, not 1 as in HADIS's published planner."""
        return 1 - self.router_ratio

    @property
    def heavy_share(self) -> float:
        """Share of requests that the heavy level generates: r + (1 - r) d."""
        return self.router_ratio + self.light_share * self.disc_ratio


def at(curve: Sequence[SharePoint], heavy: float) -> float:
    """The quality at a heavy share: linear between the points, flat beyond them. `curve` must not be empty."""
    assert curve, "a curve of no points"
    for left, right in itertools.pairwise(curve):
        if heavy < right.heavy:
            along = max(0.0, heavy - left.heavy) / (right.heavy - left.heavy)
            return left.quality + along * (right.quality - left.quality)
    return curve[-1].quality


def front(rows: Iterable[PairRow]) -> tuple[PairRow, ...]:
    """The rows that no other beats in both latency and quality, the quickest first. Source: HADIS 3.2.

    Of rows alike in both the first stays.
    """
    kept: list[PairRow] = []
    for row in sorted(rows, key=lambda r: (r.latency_ms, -r.quality)):
        if not kept or row.quality > kept[-1].quality:
            kept.append(row)
    return tuple(kept)


def check_row(row: PairRow) -> None:
    """Raise InvalidCatalog unless a row's figures are possible."""
    where = f"a row of {row.light} and {row.heavy}:"
    for what in ("router_ratio", "disc_ratio", "hardness", "threshold"):
        value = getattr(row, what)
        require(value is None or is_share(value), f"{where} {what}", value, "in [0, 1]", _CORRECT)
    require(is_amount(row.latency_ms), f"{where} latency_ms", row.latency_ms, ">= 0", _CORRECT)
    for quality in (row.quality, *row.quality_by_band):
        require(quality is None or math.isfinite(quality), f"{where} quality", quality, "finite", _CORRECT)
    step = row.refine_from_step
    require(step is None or step >= 0, f"{where} paint_over_step", step, ">= 0", _CORRECT)


def check_curve(curve: Sequence[SharePoint]) -> None:
    """Raise InvalidCatalog unless a curve's points are possible and in order."""
    for point in curve:
        possible = is_share(point.heavy) and math.isfinite(point.quality)
        require(possible, "quality by heavy share", tuple(point), "a share and a finite number", _CORRECT)
    shares = [point.heavy for point in curve]
    require(shares == sorted(set(shares)), "heavy shares of a quality curve", shares, "rising", "sort the points")
