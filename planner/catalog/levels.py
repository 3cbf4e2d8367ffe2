"""The levels of a strategy, and what a prompt loses on a faster one than its class. Source: ARGUS 3.2, 4.2, 4.3."""

from dataclasses import dataclass

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from schemas.errors import Unknown

STRATEGIES = ("models", "reuse")


@dataclass(frozen=True, slots=True)
class Level:
    """An approximation level: a variant, or a variant begun at a step of a similar past picture."""

    name: str  # of the variant; with reuse "heavy~k4"
    variant: str
    reuse_step: int  # K of the variant's steps that are skipped on a hit; 0: paints in full
    run_ms: float  # one picture, batch 1
    load_ms: float  # of the variant, into a worker that holds another
    quality: float | None  # mean, on the catalog's scale; None: unknown


def levels_of(catalog: Catalog, strategy: str) -> tuple[Level, ...]:
    """The levels of a strategy, the slowest first: v_1 .. v_n of ARGUS.

    "models": every variant. "reuse": the variant that pictures are kept of, in full and from each measured step; the
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
    for at, own in enumerate(levels):
        qualities = {**means, **measured.get(own.name, {})}
        best = qualities.get(own.name)
        lost[own.name] = {
            level.name: max(0.0, best - qualities[level.name])
            if best is not None and level.name in qualities and after > at
            else 0.0
            for after, level in enumerate(levels)
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
