"""The quality of answers on the catalog's one scale, and as FID for people where that is the scale.

Higher is better everywhere: FID is held negated. A cascade's published curve is used where there is one, because FID
is no mean over images; elsewhere quality is the mean of the levels' own.

Answers may be chosen in several ways at once (`mixture_quality`). What a discriminator chose, drafts kept and generated
again, is worth what its measured curve says. Everything else is a random mixture: levels drawn by a coin, a class or a
router, and requests sent straight to heavy beside a cascade. So nobody earns the discriminator's curve who does not use
it, and what a plan calls its levels changes nothing.

Mixing adds to the mean of the levels by the product of their shares, as it does in FID's distance of means. Of HADIS's
486 settings with both router and discriminator that foretells FID to .05 (root mean square) from the columns with one
of them; the discriminator's curve at the whole heavy share to .19, the mean of the two parts to .64. Where a setting
was measured, what is missing is added, falling to nothing at its neighbours. Where no random split was measured
(DiffServe) the parts count apart: pessimistic, as mixtures do better than their parts, and the same for every policy.

The levels of a strategy, and what a prompt loses on a faster one than its class: `levels_of`, `degradations`. Source:
ARGUS 3.2, 4.2, 4.3.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planner.catalog.curves import CascadeCurves, PairRow, SharePoint, at
from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog, Pair
from schemas.errors import Unknown

NO_CURVES = CascadeCurves()
STEP = 0.1  # between neighbouring settings of the table, in both shares. Source: HADIS's table (SOURCES.md 4)
STRATEGIES = ("models", "reuse")


def fid_of(catalog: Catalog, quality: float | None) -> float | None:
    """The FID that a quality stands for, lower is better; None on another scale or of an unknown quality."""
    return -quality if catalog.scale == "fid" and quality is not None else None


def cascade_quality(catalog: Catalog, pair: Pair, heavy_share: float) -> float | None:
    """Quality of all answers when heavy generates this share of the requests, as the discriminator chooses them.

    From the cascade's measured curve; without one the mean of the two levels, which a discriminator worth its name
    beats. None where a level's quality is unknown too.
    """
    judged = catalog.curves.get(pair.key, NO_CURVES).judged
    if judged:
        return at(judged, heavy_share)
    return _mean(catalog, {pair.light: 1 - heavy_share, pair.heavy: heavy_share})


def random_quality(catalog: Catalog, kept: Mapping[str, float]) -> float | None:
    """Quality when each level answers a share of the requests, whatever the prompt; shares sum to 1.

    The mean of the levels and what mixing each two of them adds. Where nobody measured a random split of two, mixing
    them adds nothing: for FID that is pessimistic, because mixtures do better than their ends (SOURCES.md 3.8).
    """
    mean = _mean(catalog, kept)
    return None if mean is None else mean + math.fsum(mixing_gains(catalog, kept).values())


def mixing_gains(catalog: Catalog, kept: Mapping[str, float]) -> dict[tuple[str, str], float]:
    """(light, heavy) -> what mixing these two by chance adds to the mean of all levels, where it was measured.

    By the square of their part of the requests: exact for two levels, and for more where what mixing gains goes with
    the product of their shares, as it does in FID's distance of means.
    """
    gains = {}
    for key, curves in catalog.curves.items():
        both = kept.get(key.light, 0.0) + kept.get(key.heavy, 0.0)
        if curves.random and both > 0:
            gains[key.light, key.heavy] = both**2 * curve_gain(curves.random, kept.get(key.heavy, 0.0) / both)
    return gains


def curve_gain(curve: Sequence[SharePoint], heavy: float) -> float:
    """Return by how much a mixture with this heavy share is better than the mean of its ends; 0 by an empty curve."""
    return at(curve, heavy) - (1 - heavy) * at(curve, 0.0) - heavy * at(curve, 1.0) if curve else 0.0


def _mean(catalog: Catalog, kept: Mapping[str, float]) -> float | None:
    qualities = [(share, catalog.level(level).quality) for level, share in kept.items() if share > 0]
    known = [share * quality for share, quality in qualities if quality is not None]
    return math.fsum(known) if len(known) == len(qualities) else None


class Judged(NamedTuple):
    """The answers that one discriminator chose, as shares of a mixture; not both 0."""

    pair: Pair
    kept: float
    again: float  # generated again by heavy

    @property
    def share(self) -> float:
        """The part's share of the mixture."""
        return self.kept + self.again

    @property
    def deferred(self) -> float:
        """Share of its drafts that were generated again."""
        return self.again / self.share


def mixture_quality(catalog: Catalog, by_chance: Mapping[str, float], judged: Sequence[Judged]) -> float | None:
    """Return the quality of answers, of which some shares are drawn by chance and others a discriminator's choice.

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
    """Return the gain of the discriminator within its part, over a draw by chance."""
    light, heavy = part.pair.light, part.pair.heavy
    by_choice = curve_gain(catalog.curves.get(part.pair.key, NO_CURVES).judged, part.deferred)
    both = shares[light] * shares[heavy]
    by_chance = gains.get((light, heavy), 0.0) * part.kept * part.again / both if both > 0 else 0.0
    return part.share**2 * by_choice - by_chance


def _measured(catalog: Catalog, by_chance: Mapping[str, float], part: Judged) -> float:
    """Return the measured gain of the nearest settings of router and discriminator beyond the rule."""
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


@dataclass(frozen=True, slots=True)
class Level:
    """An approximation level: a variant, or a variant begun at a step of a similar past image."""

    name: str  # of the variant; with reuse "heavy~k4"
    variant: str
    reuse_step: int  # K of the variant's steps that are skipped on a hit; 0: generates in full
    run_ms: float  # one image, batch 1
    load_ms: float  # of the variant, into a worker that holds another
    quality: float | None  # mean, on the catalog's scale; None: unknown


def levels_of(catalog: Catalog, strategy: str) -> tuple[Level, ...]:
    """The levels of a strategy, the slowest first: v_1 .. v_n of ARGUS.

    "models": every variant. "reuse": the variant that images are kept of, in full and from each measured step; the
    best one alone where none is kept. Raises Unknown for another strategy.
    """
    if strategy not in STRATEGIES:
        raise Unknown("strategy", strategy, STRATEGIES)
    if strategy == "models":
        found = [_level(catalog, name) for name in catalog.variants]
    else:
        base = next(iter(catalog.reuse), catalog.best().name)
        found = [_level(catalog, base), *_begun_later(catalog, base)]
    return tuple(sorted(found, key=lambda level: (-level.run_ms, level.name)))


def degradations(catalog: Catalog, strategy: str) -> dict[str, dict[str, float]]:
    """D(v', v): class v -> level v' -> what its prompts lose there against v, >= 0; 0 on slower levels.

    Measured over the prompts of the class where a profile has them, else the difference of the levels' means; a level
    of unknown quality loses nothing. Source: ARGUS 4.3, Eq. 2.
    """
    levels = levels_of(catalog, strategy)
    measured = catalog.measured.classes.get(strategy, {}) if catalog.measured else {}
    means = {level.name: level.quality for level in levels if level.quality is not None}
    lost = {}
    for own_place, own in enumerate(levels):
        qualities = {**means, **measured.get(own.name, {})}
        best = qualities.get(own.name)
        lost[own.name] = {
            level.name: max(0.0, best - qualities[level.name])
            if best is not None and level.name in qualities and place > own_place
            else 0.0
            for place, level in enumerate(levels)
        }
    return lost


def _level(catalog: Catalog, name: str) -> Level:
    variant = catalog.level(name)
    return Level(name, name, 0, run_ms(variant, 1), variant.load_ms, variant.quality)


def _begun_later(catalog: Catalog, base: str) -> list[Level]:
    variant = catalog.level(base)
    return [
        Level(f"{base}~k{s.k}", base, s.k, run_ms(variant, 1) * s.cost_share, variant.load_ms, s.quality)
        for s in catalog.reuse.get(base, ())
    ]
