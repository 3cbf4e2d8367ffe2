"""What a plan's answers are worth on the catalog's one scale, and as FID for people where that is the scale.

Higher is better everywhere: FID is held negated. A cascade's published curve is used where there is one, because FID
is no mean over pictures; elsewhere quality is the mean of the levels' own.
"""

import math
from collections.abc import Mapping

from planner.catalogs.curves import CascadeCurves, at
from planner.catalogs.value import Catalog, Pair

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

    From the measured curve of a random split of two levels where there is one, else the mean of the levels: for FID
    that is pessimistic, because mixtures of any kind do better than their ends (facts/peers.md 0.8).
    """
    served = {level: share for level, share in kept.items() if share > 0}
    if len(served) == 2:
        for key, curves in catalog.curves.items():
            if curves.random and {key.light, key.heavy} == served.keys():
                return at(curves.random, served[key.heavy])
    return _mean(catalog, served)


def best_share(catalog: Catalog, pair: Pair) -> float:
    """The heavy share of the highest quality, the lowest of equals: beyond it a higher threshold makes FID worse."""
    curve = catalog.curves.get(pair.key, NO_CURVES).judged
    return max(curve, key=lambda point: (point.quality, -point.heavy)).heavy if curve else 1.0


def _mean(catalog: Catalog, kept: Mapping[str, float]) -> float | None:
    qualities = [(share, catalog.level(level).quality) for level, share in kept.items() if share > 0]
    known = [share * quality for share, quality in qualities if quality is not None]
    return math.fsum(known) if len(known) == len(qualities) else None
