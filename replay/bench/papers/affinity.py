"""A catalog in which a prompt's class decides its loss of quality on faster levels, as ARGUS assumes.

    q(own, level) = best                         on the prompt's own level and slower ones
                    best - loss x gap^power      on faster ones, gap = run time of own / run time of level - 1

Source: ARGUS 3.2 and 4.3, D(v', v) growing with the gap of speeds. It publishes means alone, so that two parameters are
fitted and should be swept: `SMALLER` to SD-Small at 17.4 for random prompts (Fig. 9) and 18.2 over random levels (5.5),
`CACHED` to 17.6 over random levels (5.5) with the same power, as no second mean of it is given. Classes are equally
frequent, which Fig. 8 does not show, and are cut from hardness, so that the classifier is always right (20.6 and 20.8
of 20.9 in 5.5). Losses grow slower than the gap in this fit, where ARGUS 4.3 says that they grow faster than it, and a
prompt of the slowest class would have a PickScore of 8.6 on the fastest model: with fewer prompts of slow classes than
of others the same means need more, so that it is the class shares or the means that are not as published.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from planner.catalog.measured import Measured
from planner.catalog.model import Catalog, Cut
from planner.catalog.quality import Level, levels_of


class Affinity(NamedTuple):
    """The loss of prompts on levels faster than their own."""

    loss: float  # quality at a gap of 1, a level twice as fast; >= 0
    power: float  # > 0; above 1: losses grow faster than the gap

    def lost(self, own: Level, level: Level) -> float:
        """Return what a prompt of this own level loses on a level."""
        gap = own.run_ms / level.run_ms - 1
        return self.loss * gap**self.power if gap > 0 else 0.0


SMALLER: Final = Affinity(loss=13.13, power=0.812)  # strategy "models"
CACHED: Final = Affinity(loss=17.17, power=0.812)  # strategy "reuse"
FITTED: Final[Mapping[str, Affinity]] = {"models": SMALLER, "reuse": CACHED}


def with_affinity(catalog: Catalog, affinities: Mapping[str, Affinity] = FITTED) -> Catalog:
    """Return a catalog whose qualities depend on class under these strategies; the best level's quality stays.

    Classes of a strategy are cut from hardness, equally frequent, the easiest those of the fastest level.
    """
    best = catalog.best().quality
    assert best is not None, f"catalog {catalog.name!r} has no quality to begin from"
    levels = {strategy: levels_of(catalog, strategy) for strategy in affinities}
    cuts = {strategy: _cuts(own) for strategy, own in levels.items()}
    bounds = tuple(sorted({0.0, 1.0} | {cut.hardness for own in cuts.values() for cut in own}))
    quality, classes = dict[str, tuple[float, ...]](), dict[str, dict[str, dict[str, float]]]()
    for strategy, affinity in affinities.items():
        own_of = {level.name: level for level in levels[strategy]}
        classes[strategy] = {
            name: {level.name: best - affinity.lost(own, level) for level in levels[strategy]}
            for name, own in own_of.items()
        }
        named = [next(cut.level for cut in cuts[strategy] if high <= cut.hardness) for high in bounds[1:]]
        quality |= {level: tuple(classes[strategy][own][level] for own in named) for level in own_of}
    return _with_means(
        replace(
            catalog,
            class_cuts=catalog.class_cuts | cuts,
            measured=Measured(bounds=bounds, quality=dict(quality), classes=classes),
        )
    )


def _cuts(levels: Sequence[Level]) -> tuple[Cut, ...]:
    """Return a cut for each level, the fastest first, at equal parts of hardness."""
    return tuple(Cut(level.name, (at + 1) / len(levels)) for at, level in enumerate(reversed(levels)))


def _with_means(catalog: Catalog) -> Catalog:
    """Return the catalog with means over all prompts, computed from its bands."""
    measured = catalog.measured
    assert measured is not None
    widths = [high - low for low, high in pairwise(measured.bounds)]
    means = {
        level: math.fsum(width * value for width, value in zip(widths, row, strict=True) if value is not None)
        for level, row in measured.quality.items()
    }
    variants = {name: replace(v, quality=means.get(name, v.quality)) for name, v in catalog.variants.items()}
    reuse = {
        name: tuple(start._replace(quality=means.get(f"{name}~k{start.k}", start.quality)) for start in starts)
        for name, starts in catalog.reuse.items()
    }
    return replace(catalog, variants=variants, reuse=reuse)
