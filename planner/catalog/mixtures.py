"""What answers are worth together that were chosen in several ways, on a scale that is no mean over pictures.

What a discriminator chose, drafts kept and painted again, is worth what its measured curve says. Everything else is a
random mixture: levels drawn by a coin, a class or a router, and requests sent straight to heavy beside a cascade. So
nobody earns the discriminator's curve who does not use it, and what a plan calls its levels changes nothing.

Mixing adds to the mean of the levels by the product of their shares, as it does in FID's distance of means. Of HADIS's
486 settings with both router and discriminator that foretells FID to .05 (root mean square) from the columns with one
of them; the discriminator's curve at the whole heavy share to .19, the mean of the two parts to .64. Where a setting
was measured, what is missing is added, falling to nothing at its neighbours. Where no random split was measured
(DiffServe) the parts count apart: pessimistic, as mixtures do better than their parts, and the same for every policy.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from planner.catalog.curves import PairRow
from planner.catalog.model import Catalog, Pair
from planner.catalog.quality import NO_CURVES, cascade_quality, curve_gain, mixing_gains, random_quality

STEP = 0.1  # between neighbouring settings of the table, in both shares. Source: HADIS's table (facts/peers.md 2.5)


class Judged(NamedTuple):
    """The answers that one discriminator chose, as shares of a mixture; not both 0."""

    pair: Pair
    kept: float
    again: float  # painted again by heavy

    @property
    def share(self) -> float:
        """Of the mixture."""
        return self.kept + self.again

    @property
    def deferred(self) -> float:
        """Share of its drafts that were painted again."""
        return self.again / self.share


def mixture_quality(catalog: Catalog, by_chance: Mapping[str, float], judged: Sequence[Judged]) -> float | None:
    """What answers are worth of which these shares are levels drawn by chance and these a discriminator's choice.

    Shares sum to 1. None where the quality of one of the levels is unknown.
    """
    quality = _by_rule(catalog, by_chance, judged)
    return None if quality is None else quality + math.fsum(_measured(catalog, by_chance, part) for part in judged)


def _by_rule(catalog: Catalog, by_chance: Mapping[str, float], judged: Sequence[Judged]) -> float | None:
    parts = [(part.share, cascade_quality(catalog, part.pair, part.deferred)) for part in judged]
    rest = math.fsum(by_chance.values())
    if rest > 0:
        parts.append((rest, random_quality(catalog, {level: share / rest for level, share in by_chance.items()})))
    known = [(share, quality) for share, quality in parts if quality is not None]
    if len(known) < len(parts):
        return None
    apart = math.fsum(share * quality for share, quality in known)
    return max(apart, _together(catalog, by_chance, judged)) if len(parts) > 1 else apart


def _together(catalog: Catalog, by_chance: Mapping[str, float], judged: Sequence[Judged]) -> float:
    shares = defaultdict[str, float](float, by_chance)
    for part in judged:
        shares[part.pair.light] += part.kept
        shares[part.pair.heavy] += part.again
    mixed = random_quality(catalog, shares)
    if mixed is None:  # of a pair with a curve whose levels nobody judged alone
        return -math.inf
    gains = mixing_gains(catalog, shares)
    return mixed + math.fsum(_by_choice(catalog, part, shares, gains) for part in judged)


def _by_choice(
    catalog: Catalog, part: Judged, shares: Mapping[str, float], gains: Mapping[tuple[str, str], float]
) -> float:
    """What the discriminator adds within its part, in place of what chance would there."""
    light, heavy = part.pair.light, part.pair.heavy
    by_choice = curve_gain(catalog.curves.get(part.pair.key, NO_CURVES).judged, part.deferred)
    both = shares[light] * shares[heavy]
    by_chance = gains.get((light, heavy), 0.0) * part.kept * part.again / both if both > 0 else 0.0
    return part.share**2 * by_choice - by_chance


def _measured(catalog: Catalog, by_chance: Mapping[str, float], part: Judged) -> float:
    """What the settings of router and discriminator around were measured to be worth beyond the rule."""
    pair, straight = part.pair, by_chance.get(part.pair.heavy, 0.0)
    own = part.share + straight
    rows = [row for row in catalog.pair_rows if (row.light, row.heavy) == (pair.light, pair.heavy)]
    near = [
        (_nearness(row, straight / own, part.deferred), row) for row in rows if row.router_ratio * row.disc_ratio > 0
    ]
    return own**2 * math.fsum(share * _surprise(catalog, pair, row) for share, row in near if share > 0)


def _nearness(row: PairRow, straight: float, deferred: float) -> float:
    """1 at the row's own setting, 0 at its neighbours' and beyond."""
    apart = abs(row.router_ratio - straight), abs(row.disc_ratio - deferred)
    return max(0.0, 1 - apart[0] / STEP) * max(0.0, 1 - apart[1] / STEP)


def _surprise(catalog: Catalog, pair: Pair, row: PairRow) -> float:
    again = row.light_share * row.disc_ratio
    by_rule = _by_rule(catalog, {row.heavy: row.router_ratio}, [Judged(pair, row.light_share - again, again)])
    return 0.0 if by_rule is None else row.quality - by_rule
