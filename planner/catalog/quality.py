"""What a plan's answers are worth on the catalog's one scale, and as FID for people where that is the scale.

Higher is better everywhere: FID is held negated. A cascade's published curve is used where there is one, because FID
is no mean over pictures; elsewhere quality is the mean of the levels' own.
"""

import math
from collections.abc import Mapping, Sequence

from planner.catalog.curves import CascadeCurves, SharePoint, at
from planner.catalog.model import Catalog, Pair

NO_CURVES = CascadeCurves()


def fid_of(catalog: Catalog, quality: float | None) -> float | None:
    """The FID that a quality stands for, lower is better; None on another scale or of an unknown quality."""
    return -quality if catalog.scale == "fid" and quality is not None else None


def cascade_quality(catalog: Catalog, pair: Pair, heavy_share: float) -> float | None:
    """Quality of all answers when heavy paints this share of the requests, as the discriminator chooses them.

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
    them adds nothing: for FID that is pessimistic, because mixtures do better than their ends (facts/peers.md 0.8).
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
    """What a mixture with this heavy share is worth more than the mean of its ends; nothing by an empty curve."""
    return at(curve, heavy) - (1 - heavy) * at(curve, 0.0) - heavy * at(curve, 1.0) if curve else 0.0


def _mean(catalog: Catalog, kept: Mapping[str, float]) -> float | None:
    qualities = [(share, catalog.level(level).quality) for level, share in kept.items() if share > 0]
    known = [share * quality for share, quality in qualities if quality is not None]
    return math.fsum(known) if len(known) == len(qualities) else None
