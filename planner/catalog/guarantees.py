"""What is promised of a level's images: how many of those that are kept are wrong at most, with which confidence.

*Kept* are the images of a level that its discriminator gives a threshold's confidence or more. A level whose images are
not judged has a bound of its own, of all its images: a `Guarantee` without a discriminator. A catalog's profile carries
guarantees, `agents/learning/bounds.py` computes them, and what serves reads them with the standard library alone.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from planner.catalog.validate import is_share, require

OVERALL: Final = -1  # in place of a band: prompts of any hardness, drawn as the judged ones were
DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
ADVICE: Final = "measure it again, or remove it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One statement: of the images of a band with a confidence of `threshold` or more, at most `alpha` are wrong."""

    band: int = OVERALL  # of hardness, from 0
    alpha: float  # share of wrong images; of a level's own bound equal to `bound`
    threshold: float = 0.0  # [0, 1)
    kept_share: float = 1.0  # of the band's judged images
    bound: float  # upper end of the share of wrong images that the judged ones showed; at most alpha
    n: int  # judged images of the band


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """All that is promised of a level's images as a discriminator keeps them.

    The rows at one alpha, overall and of all bands, hold together with confidence 1 - delta. There is no row where the
    judged images showed no threshold.
    """

    level: str
    discriminator: str = ""  # "": of all images of the level, unjudged
    delta: float
    n: int  # judged images
    date: str  # when they were judged, as 2026-11-29
    standard: str  # what makes an image right, in words
    bounds: tuple[float, ...]  # of the hardness bands, rising from 0 to 1
    rows: tuple[Promise, ...] = ()

    def band(self, hardness: float) -> int:
        """Return the band of a hardness in [0, 1]; a bound belongs to the band above it, 1 to the last."""
        return min(bisect_right(self.bounds, hardness), len(self.bounds) - 1) - 1

    def at_most(self, alpha: float, band: int = OVERALL) -> Promise | None:
        """Return the promise that at most a share `alpha` is wrong: the next stricter one of the ladder, or None."""
        held = [row for row in self.rows if row.band == band and row.alpha <= alpha]
        return max(held, key=lambda row: row.alpha, default=None)

    def best(self, band: int = OVERALL, threshold: float = 1.0) -> Promise | None:
        """Return the strictest promise for the images that a threshold keeps, or None."""
        held = [row for row in self.rows if row.band == band and row.threshold <= threshold]
        return min(held, key=lambda row: row.alpha, default=None)


def check_guarantees(guarantees: Iterable[Guarantee], where: str) -> None:
    """Raise InvalidCatalog unless the guarantees are possible, one for each level and discriminator."""
    seen = set()
    for each in guarantees:
        here, key = f"{where}: guarantees.{each.level}.{each.discriminator}", (each.level, each.discriminator)
        require(key not in seen, here, key, "one of each level and discriminator", ADVICE)
        seen.add(key)
        require(0 < each.delta < 1, f"{here}: delta", each.delta, "in (0, 1)", ADVICE)
        require(DATE.fullmatch(each.date) is not None, f"{here}: date", each.date, "a date, as 2026-11-29", ADVICE)
        rises = each.bounds == tuple(sorted(set(each.bounds))) and (each.bounds[:1], each.bounds[-1:]) == ((0,), (1,))
        require(rises, f"{here}: bounds", each.bounds, "rising from 0 to 1", ADVICE)
        for row in each.rows:
            shares = row.alpha, row.threshold, row.kept_share, row.bound
            require(all(map(is_share, shares)), f"{here}: rows", row, "of shares in [0, 1]", ADVICE)
            require(row.bound <= row.alpha, f"{here}: bound", row.bound, f"at most alpha {row.alpha}", ADVICE)
            require(OVERALL <= row.band < len(each.bounds) - 1, f"{here}: band", row.band, "one of its bands", ADVICE)
            require(0 < row.n <= each.n, f"{here}: n", row.n, f"from 1 to {each.n}", ADVICE)
