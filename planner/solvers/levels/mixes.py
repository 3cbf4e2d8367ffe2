"""What the policies that mix levels by the demand have in common: routes, expectation and words of a mix."""

import math
from collections.abc import Mapping, Sequence

from planner.catalog.parse import Catalog
from planner.catalog.quality import degradations, random_quality
from planner.control.allocation import busiest, counts_told
from planner.control.format import counted, rate
from planner.solvers.levels.distribution import predicted
from planner.solvers.levels.level_mix import Mix, Offer, mean_quality
from planner.solvers.levels.offers import is_judged
from planner.solvers.levels.pasm import shift_map
from schemas.messages import Expected, Route


def routes_of(
    mix: Mix, offers: Sequence[Offer], catalog: Catalog, strategy: str, classes: Mapping[str, float] | None
) -> tuple[tuple[Route, ...], str]:
    """The shift map's rows from what was seen of the classes, with the mix for requests of none; and who made them.

    `classes` None, or a catalog without any under this strategy: the mix for all, whatever the prompt.
    """
    blind = Route(levels=mix.shares)
    levels = [offer.level for offer in offers]
    named = catalog.classes(strategy)
    known = [level for level in levels if level in named]
    if classes is None or not known:
        return (blind,), "prompt-blind" if classes is None else "prompt-blind as the catalog has no classes"
    wanted = predicted(classes, known)
    pasm = shift_map(levels, wanted, mix.shares, degradations(catalog, strategy))
    rows = tuple(Route(label=label, levels=pasm.rows.get(label, mix.shares)) for label in sorted(named))
    return (*rows, blind), f"classes aligned by {pasm.how}"


def expected_of(mix: Mix, offers: Sequence[Offer], catalog: Catalog, demand_rps: float) -> Expected:
    """What to hold the outcome against. Quality is that of a random split: classes should beat it."""
    busy = {offer.variant: 0.0 for offer in offers}
    for offer in offers:
        busy[offer.variant] += mix.shares.get(offer.level, 0.0) * demand_rps / offer.rps
    return Expected(
        demand_rps=demand_rps,
        utilization=busiest(busy, mix.counts),
        heavy_share=mix.shares.get(catalog.best().name, 0.0),
        quality=_quality(mix.shares, offers, catalog),
    )


def _quality(shares: Mapping[str, float], offers: Sequence[Offer], catalog: Catalog) -> float | None:
    if shares.keys() <= catalog.variants.keys():
        return random_quality(catalog, shares)
    return mean_quality(shares, offers) if is_judged(catalog) else None


def mix_told(mix: Mix, offers: Sequence[Offer], demand_rps: float) -> str:
    """A mix in words: "heavy 3, light 1 for 10.5/s", what of it is not carried, and why it may not be the best."""
    counts = counts_told({variant: count for variant, count in mix.counts.items() if count > 0})
    told = f"{counts or 'no worker yet'} for {rate(demand_rps)}"
    if mix.carried < 1 and counts:
        needed = math.ceil(demand_rps / max(offer.rps for offer in offers))
        told += f", saturated: {mix.carried:.0%} carried, {counted(needed, 'worker')} would carry all"
    return f"{told}, as {mix.trouble}" if mix.trouble else told
