"""The quality of answers on the catalog's one scale, and as FID for people where that is the scale.

Higher is better everywhere: FID is held negated. A cascade's published curve is used where there is one, because FID
is no mean over images; elsewhere quality is the mean of the levels' own.

A plan may choose answers in several ways at once (`mixture_quality`). Answers that a discriminator chose (drafts kept
or generated again) have the quality of its measured curve. All others are a random mixture: levels drawn at random, by
class or by a router, and requests sent straight to heavy beside a cascade. So only plans with the discriminator gain by
its curve, and the names of levels do not matter.

Mixing adds to the mean of the levels by the product of their shares, as it does in FID's distance of means. Of HADIS's
486 settings with both router and discriminator that predicts FID to .05 (root mean square) from the columns with one
of them; the discriminator's curve at the whole heavy share to .19, the mean of the two parts to .64. Where a setting
was measured, what is missing is added, falling to nothing at its neighbours. Where no random split was measured
(DiffServe) what they are worth is known between two bounds. The pessimistic one lets the parts count apart, as mixtures
do better than their parts; the optimistic one lets a coin choose as well as the discriminator, by its curve.

A draft that a discriminator rejected and that is kept, because the next level would be too late, is no choice of the
discriminator. Whether there was time did not depend on the draft, so that the answers are a mixture: of answers with
all rejected drafts generated again, and of light's alone. The pessimistic bound is the mean of these two; by the
optimistic one the discriminator chose the fewer drafts that were generated again.

A catalog without any measured quality has ranks in its place (`ranked`).

The levels of a strategy, and what a prompt loses on a faster one than its class: `levels_of`, `degradations`. Source:
ARGUS 3.2, 4.2, 4.3.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from planner.catalog.curves import CascadeCurves, PairRow, SharePoint, at
from planner.catalog.entries import deferred_share, run_ms
from planner.catalog.model import Catalog, Pair
from schemas.errors import Unknown

NO_CURVES = CascadeCurves()
UNMEASURED = "no quality is measured, so that a slower level counts as a better one"
STEP = 0.1  # between neighbouring settings of the table, in both shares. Source: HADIS's table (SOURCES.md 4)
STRATEGIES = ("models", "reuse")


def fid_of(catalog: Catalog, quality: float | None) -> float | None:
    """The FID that a quality stands for, lower is better; None on another scale or of an unknown quality."""
    return -quality if catalog.scale == "fid" and quality is not None else None


def ranked(catalog: Catalog) -> Catalog:
    """Return the catalog with ranks from 0 to 1 for qualities, the slowest level's the highest; itself if any is known.

    A discriminator is believed: the drafts that it finds good enough at its own threshold count as heavy's images. One
    that draws (engine `profile`) is believed nothing: a cascade of it is worth a random split.
    """
    if catalog.has_quality:
        return catalog
    if "ranked" not in catalog.derived:
        best_first = sorted(catalog.variants, key=lambda name: -run_ms(catalog.level(name), 1))
        ranks = {name: 1 - at / max(1, len(best_first) - 1) for at, name in enumerate(best_first)}
        curves = {}
        for pair in catalog.cascades:
            judge, low, high = catalog.discriminator(pair.discriminator), ranks[pair.light], ranks[pair.heavy]
            again = deferred_share(judge, judge.threshold)
            if judge.engine != "profile" and 0 < again < 1:
                curves[pair.key] = CascadeCurves((SharePoint(0, low), SharePoint(again, high), SharePoint(1, high)))
        variants = {name: replace(each, quality=ranks[name]) for name, each in catalog.variants.items()}
        catalog.derived["ranked"] = replace(catalog, variants=variants, curves=curves)
    found: Catalog = catalog.derived["ranked"]
    return found


def cascade_quality(catalog: Catalog, pair: Pair, heavy_share: float) -> float | None:
    """Quality of all answers when heavy generates this share of the requests, as the discriminator chooses them.

    From the cascade's measured curve; without one the mean of the two levels, which a discriminator worth its name
    beats. None where a level's quality is unknown too.
    """
    judged = catalog.curves.get(pair.key, NO_CURVES).judged
    if judged:
        return at(judged, heavy_share)
    return _mean(catalog, {pair.light: 1 - heavy_share, pair.heavy: heavy_share})


def random_quality(catalog: Catalog, kept: Mapping[str, float], *, is_optimistic: bool = False) -> float | None:
    """Quality when each level answers a share of the requests, whatever the prompt; shares sum to 1.

    The mean of the levels plus the gain of mixing each two of them; 0 for a pair whose random split was not measured.
    For FID that is pessimistic, because mixtures do better than their ends (SOURCES.md 3.8). The optimistic bound adds
    the gain of the discriminator's choice instead.
    """
    mean = _mean(catalog, kept)
    gains = mixing_gains(catalog, kept, is_optimistic=is_optimistic)
    return None if mean is None else mean + math.fsum(gains.values())


def mixing_gains(
    catalog: Catalog, kept: Mapping[str, float], *, is_optimistic: bool = False
) -> dict[tuple[str, str], float]:
    """(light, heavy) -> what mixing these two by chance adds to the mean of all levels, where it was measured.

    With `is_optimistic` what the discriminator's choice adds stands in where no random split was measured.

    By the square of their part of the requests: exact for two levels, and for more where what mixing gains goes with
    the product of their shares, as it does in FID's distance of means.
    """
    gains = {}
    for key, curves in catalog.curves.items():
        both = kept.get(key.light, 0.0) + kept.get(key.heavy, 0.0)
        curve = curves.random or (curves.judged if is_optimistic else ())
        if curve and both > 0:
            gains[key.light, key.heavy] = both**2 * curve_gain(curve, kept.get(key.heavy, 0.0) / both)
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
    kept: float  # good enough
    again: float  # generated again by heavy
    rejected: float = 0.0  # not good enough, but kept, as heavy would be too late

    @property
    def share(self) -> float:
        """The part's share of the mixture."""
        return self.kept + self.again + self.rejected

    @property
    def deferred(self) -> float:
        """Share of its drafts that were generated again."""
        return self.again / self.share

    @property
    def rejection(self) -> float:
        """Share of its drafts that the discriminator rejected, whether there was time to generate them again or not."""
        return (self.again + self.rejected) / self.share


def mixture_quality(
    catalog: Catalog, by_chance: Mapping[str, float], judged: Sequence[Judged], *, is_optimistic: bool = False
) -> float | None:
    """Return the quality of answers, of which some shares are drawn by chance and others a discriminator's choice.

    Shares sum to 1. None where the quality of one of the levels is unknown. Where it is known between two bounds only
    the lower one, with `is_optimistic` the upper one.
    """
    quality = _by_rule(catalog, by_chance, judged, is_optimistic)
    return None if quality is None else quality + math.fsum(_measured(catalog, by_chance, part) for part in judged)


def _chosen_quality(catalog: Catalog, part: Judged, is_optimistic: bool) -> float | None:
    """Quality of a part: by the discriminator's curve, or between light's alone and it where drafts had to do."""
    if part.rejected <= 0 or is_optimistic:
        return cascade_quality(catalog, part.pair, part.deferred)
    ends = [cascade_quality(catalog, part.pair, share) for share in (0.0, part.rejection)]
    along = part.deferred / part.rejection
    return None if ends[0] is None or ends[1] is None else (1 - along) * ends[0] + along * ends[1]


def _choice_gain(catalog: Catalog, part: Judged, is_optimistic: bool) -> float:
    """Return what the discriminator's choice adds to the mean of the part's levels."""
    curve = catalog.curves.get(part.pair.key, NO_CURVES).judged
    if part.rejected <= 0 or is_optimistic:
        return curve_gain(curve, part.deferred)
    return part.deferred / part.rejection * curve_gain(curve, part.rejection)


def _by_rule(
    catalog: Catalog, by_chance: Mapping[str, float], judged: Sequence[Judged], is_optimistic: bool = False
) -> float | None:
    parts = [(part.share, _chosen_quality(catalog, part, is_optimistic)) for part in judged]
    rest = math.fsum(by_chance.values())
    if rest > 0:
        own = {level: share / rest for level, share in by_chance.items()}
        parts.append((rest, random_quality(catalog, own, is_optimistic=is_optimistic)))
    known = [(share, quality) for share, quality in parts if quality is not None]
    if len(known) < len(parts):
        return None
    apart = math.fsum(share * quality for share, quality in known)
    return max(apart, _together(catalog, by_chance, judged, is_optimistic)) if len(parts) > 1 else apart


def _together(catalog: Catalog, by_chance: Mapping[str, float], judged: Sequence[Judged], is_optimistic: bool) -> float:
    shares = defaultdict[str, float](float, by_chance)
    for part in judged:
        shares[part.pair.light] += part.kept + part.rejected
        shares[part.pair.heavy] += part.again
    mixed = random_quality(catalog, shares, is_optimistic=is_optimistic)
    if mixed is None:  # a pair with a curve whose single levels were not judged
        return -math.inf
    gains = mixing_gains(catalog, shares, is_optimistic=is_optimistic)
    by_choice = [part.share**2 * _choice_gain(catalog, part, is_optimistic) for part in judged]
    return mixed + math.fsum(by_choice) - math.fsum(_chance_gain(part, shares, gains) for part in judged)


def _chance_gain(part: Judged, shares: Mapping[str, float], gains: Mapping[tuple[str, str], float]) -> float:
    """Return what a draw by chance would add within a part, which its discriminator's choice stands in for."""
    light, heavy = part.pair.light, part.pair.heavy
    both = shares[light] * shares[heavy]
    drafts = part.kept + part.rejected
    return gains.get((light, heavy), 0.0) * drafts * part.again / both if both > 0 else 0.0


def _measured(catalog: Catalog, by_chance: Mapping[str, float], part: Judged) -> float:
    """Return the measured gain of the nearest settings of router and discriminator beyond the rule."""
    pair, straight = part.pair, by_chance.get(part.pair.heavy, 0.0)
    own = part.share + straight
    rows = [row for row in catalog.pair_rows if row.is_of(pair.key)]
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
