"""A catalog's levels as Eq. 1 wants them: speed and quality, the slowest first."""

from collections.abc import Mapping, Sequence

from planner.catalog.entries import run_ms, throughput_rps
from planner.catalog.parse import Catalog
from planner.catalog.quality import Level, levels_of
from planner.solvers.levels.level_mix import Offer
from schemas.errors import Unknown


def offers_of(catalog: Catalog, batches: Mapping[str, int]) -> tuple[Offer, ...]:
    """Every variant at its batch size of `batches`, 1 where it names none."""
    return _offers(levels_of(catalog, "models"), catalog, batches)


def reuse_offers(catalog: Catalog, batch: int) -> tuple[Offer, ...]:
    """A variant and its reuse levels; () where requests cannot be routed to any: a plan would be refused."""
    levels = levels_of(catalog, "reuse")
    is_offered = any(level.reuse_step for level in levels) and all(_is_routable(v.name, catalog) for v in levels)
    return _offers(levels, catalog, {levels[0].variant: batch}) if is_offered else ()


def is_judged(catalog: Catalog) -> bool:
    """Whether every variant's quality is known; `offers_of` takes the slower for the better where not."""
    return all(variant.quality is not None for variant in catalog.variants.values())


def _offers(levels: Sequence[Level], catalog: Catalog, batches: Mapping[str, int]) -> tuple[Offer, ...]:
    qualities = [level.quality for level in levels]
    by_rank = [float(-rank) for rank in range(len(levels))]
    known = [q for q in qualities if q is not None]
    offers = (
        Offer(level.name, level.variant, _rps(level, catalog, batches.get(level.variant, 1)), quality)
        for level, quality in zip(levels, known if len(known) == len(levels) else by_rank, strict=True)
    )
    return tuple(sorted(offers, key=lambda offer: (offer.rps, -offer.quality)))


def _rps(level: Level, catalog: Catalog, batch: int) -> float:
    """P_th: a reuse level saves the same share of a batch's time as of one picture's."""
    variant = catalog.level(level.variant)
    return throughput_rps(variant, batch) * run_ms(variant, 1) / level.run_ms


def _is_routable(level: str, catalog: Catalog) -> bool:
    try:
        catalog.level(level)
    except Unknown:
        return False
    return True
