"""Prices a plan's promise of quality, for every policy: one view of the catalog, and what the plan then says.

By `quality_at_least` a plan binds the drafts that discriminators keep: in each hardness band from the threshold on that
the catalog promises it for, or none (`planner/serving/routing/promises.py` carries it out for each image). Policies
plan with the catalog in which every cascade keeps no more than that. No policy knows of it.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from planner.catalog.bands import bounds_of, curve_rows
from planner.catalog.curves import PairRow
from planner.catalog.entries import DeferralPoint, variant_of
from planner.catalog.guarantees import OVERALL
from planner.catalog.measured import CascadeKey
from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.control.wording.format import counted
from schemas.messages import Cascade

NOTHING = 1.0  # the threshold that keeps nothing


def promising(catalog: Catalog, quality_at_least: float) -> Catalog:
    """Return the catalog as a plan with this promise is made with: cascades keep no draft that is not promised.

    Settings of router and discriminator whose threshold lies below the promised one are not offered. 0: as it is.
    """
    if not quality_at_least:
        return catalog
    key = "promising", quality_at_least
    if key not in catalog.derived:
        floors = {pair.key: _floors(catalog, pair.key, quality_at_least) for pair in catalog.cascades}
        rows = tuple(row for row in catalog.pair_rows if _is_offered(row, catalog, floors))
        catalog.derived[key] = _with_curves(replace(catalog, floors=floors, pair_rows=rows))
    view: Catalog = catalog.derived[key]
    return view


def with_promise(proposal: PlanProposal, offered: Catalog, quality_at_least: float) -> PlanProposal:
    """The proposal with its promise: no threshold is below the lowest promised one, and the reason says what holds.

    `offered`: the catalog of `promising`.
    """
    if not quality_at_least:
        return proposal
    lowest = {key: min(floors) for key, floors in offered.floors.items()}
    cascades = tuple(
        replace(each, threshold=max(each.threshold, lowest.get(_key(each), NOTHING))) for each in proposal.cascades
    )
    proposal = replace(proposal, cascades=cascades, quality_at_least=quality_at_least)
    said = "; ".join([*_kept(proposal, offered), *_made(proposal, offered)])
    if proposal.admission is not None or not proposal.is_feasible:
        said += "; the workers do not suffice for all demand so: it is turned away or late, and the promise stays"
    return replace(proposal, reason=f"{proposal.reason}; quality_at_least {quality_at_least:g}: {said}")


def _key(cascade: Cascade) -> CascadeKey:
    return CascadeKey(variant_of(cascade.level), cascade.next_level, cascade.discriminator)


def _with_curves(offered: Catalog) -> Catalog:
    """The catalog with the deferral of each discriminator as its first cascade has it under the promise."""
    judges = dict(offered.discriminators)
    for pair in reversed(offered.cascades):
        rows = curve_rows(offered, pair)
        curve = tuple(DeferralPoint(row.threshold, row.deferred) for row in rows)
        judges[pair.discriminator] = replace(offered.discriminator(pair.discriminator), deferral=curve)
    return replace(offered, discriminators=judges)


def _floors(catalog: Catalog, key: CascadeKey, quality_at_least: float) -> tuple[float, ...]:
    guarantee, bounds = catalog.guarantee(key.light, key.discriminator), bounds_of(catalog)
    bands = range(len(bounds) - 1)
    if guarantee is None:
        return (NOTHING,) * len(bands)
    same = guarantee.bounds == bounds
    rows = [guarantee.at_most(round(1 - quality_at_least, 9), band if same else OVERALL) for band in bands]
    return tuple(NOTHING if row is None else row.threshold for row in rows)


def _is_offered(row: PairRow, catalog: Catalog, floors: dict[CascadeKey, tuple[float, ...]]) -> bool:
    """Whether a setting keeps only drafts that are promised, of prompts less hard than those that go past light."""
    bounds, until = bounds_of(catalog), 1 - row.router_ratio if row.hardness is None else row.hardness
    named = [floors[key] for key in floors if (key.light, key.heavy) == (row.light, row.heavy)]
    reached = [floor for each in named for floor, begin in zip(each, bounds, strict=False) if begin < until]
    return row.threshold is not None and bool(named) and row.threshold >= max(reached, default=0.0)


def _kept(proposal: PlanProposal, offered: Catalog) -> Iterator[str]:
    """A sentence for each cascade: from which threshold on its drafts are kept, by band."""
    bounds = bounds_of(offered)
    for cascade in proposal.cascades:
        floors = offered.floors.get(_key(cascade), (NOTHING,))
        ways = [
            f"from {max(floor, cascade.threshold):.2f} on at hardness {low:g} to {high:g}"
            for floor, (low, high) in zip(floors, pairwise(bounds), strict=False)
            if floor < NOTHING
        ]
        kept = ", ".join(ways) or "nowhere: it promises too little"
        yield f"{cascade.discriminator} keeps drafts of {cascade.level} {kept}"


def _made(proposal: PlanProposal, offered: Catalog) -> Iterator[str]:
    """A sentence for each level whose images are not judged: the bound of its own."""
    used = {variant_of(level) for route in proposal.routes for level, share in route.levels.items() if share > 0}
    used |= {cascade.next_level for cascade in proposal.cascades}
    for level in sorted(used - {variant_of(cascade.level) for cascade in proposal.cascades}):
        guarantee = offered.guarantee(level)
        row = guarantee.best() if guarantee else None
        if guarantee is None or row is None:
            yield f"no discriminator judges images of {level}, and how many of them are wrong was not measured"
        else:
            rests = f"measured on {counted(row.n, 'image')} of {guarantee.date}"
            wrong = f"at most {100 * row.bound:.1f} % of them are wrong ({rests})"
            yield f"no discriminator judges images of {level}: {wrong}"
