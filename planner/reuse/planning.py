"""The reuse group of policies' plans: floors, guard, check, and the expected share of hits.

A hit that saves half of K counts half, so that a level's mean number of steps is h (N - K) + (1 - h) N.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.catalog.quality import Level, levels_of
from planner.catalog.reuse import Neighbours, ReuseProfile
from planner.observation.reuse import ObservedHits
from planner.reuse.guard import Comparison, Verdict, allowed_share
from planner.reuse.steps import step_of
from planner.reuse.terms import NO_GUARD, Difference, GuardShares, Terms, terms_of
from schemas.messages import ReuseCheck, ReuseFloor, ReuseGuard, ReusePlan, Route

TEXT_IMAGE: Final = "text-image"  # key by which MoDM looks up: for simulation, no worker knows it
PRIOR: Final = 100  # jobs that the profile's hit rate stands in for until as many were seen
TRIED: Final = 0.1  # of a variant's requests, which are looked up where no more are, so that a change is seen
STEP: Final = 0.02  # to which a hit rate that was seen is rounded: a plan need not change with every breath


def any_neighbour(share: float) -> tuple[ReuseFloor, ...]:
    """Let the nearest neighbour save this share, whatever its similarity. Source: ARGUS 4.5, which has no floor."""
    return (ReuseFloor(similarity=-1.0, share=share),)


def check_of(catalog: Catalog) -> ReuseCheck | None:
    """Let only images enter that the catalog's own discriminator accepts; None without one."""
    name = catalog.cascades[0].discriminator if catalog.cascades else next(iter(catalog.discriminators), "")
    return ReuseCheck(discriminator=name, threshold=catalog.discriminator(name).threshold) if name else None


def reuse_plan(
    catalog: Catalog,
    profile: ReuseProfile,
    floors: Sequence[ReuseFloor],
    seen: Mapping[str, ObservedHits],
    *,
    guard: ReuseGuard | None = None,
    check: ReuseCheck | None = None,
    key: str = "",
    levels: Sequence[Level] | None = None,
) -> ReusePlan:
    """Return a plan's group with the hits that are expected on each level that it offers.

    `key`: encoder of the prompts; "": the profile's. `seen`: level -> what its newest jobs saved; the profile counts
    for as many as they fall short of PRIOR. `levels`: those offered; None for every reuse level of the catalog.
    """
    plan = ReusePlan(floors=tuple(floors), guard=guard, check=check, key=key or profile.key)
    terms = terms_of(plan)
    hits = {}
    for level in _reuse_levels(catalog) if levels is None else levels:
        expected = expected_hits(profile, terms, level.name, level.reuse_step, catalog.level(level.variant).steps)
        hits[level.name] = blended(expected, seen.get(level.name))
    return replace(plan, hits=hits)


def level_of(catalog: Catalog, floors: Sequence[ReuseFloor]) -> Level | None:
    """Return the reuse level of the smallest K on which each floor saves all that it may; None without any.

    On a level with a smaller K the floors act as min(route, floor), at shares that they were not tested with; one with
    a larger K saves nothing more.
    """
    most = max((floor.share for floor in floors), default=0.0)
    reaching = [
        level
        for level in _reuse_levels(catalog)
        if level.reuse_step >= max(1, step_of(most, catalog.level(level.variant).steps))
    ]
    return min(reaching, key=lambda level: level.reuse_step, default=None)


def _reuse_levels(catalog: Catalog) -> list[Level]:
    return [level for level in levels_of(catalog, "reuse") if level.reuse_step]


def guarded_plan(catalog: Catalog, profile: ReuseProfile, seen: Mapping[str, ObservedHits]) -> ReusePlan | None:
    """Return a plan's group with the profile's floors and guard, the catalog's check, and the one level that they fit.

    None: no floors or guard were measured, or the catalog has no level on which the floors were tested (`level_of`).
    """
    level = level_of(catalog, profile.floors)
    if not profile.floors or profile.guard is None or level is None:
        return None
    return reuse_plan(
        catalog, profile, profile.floors, seen, guard=profile.guard, check=check_of(catalog), levels=(level,)
    )


def losses_of(catalog: Catalog, plan: ReusePlan) -> Mapping[str, float]:
    """Return what hits lose on each level, where it was measured: under the profile's guard, which is the plan's."""
    profile = catalog.reuse_profile
    return profile.losses if profile is not None and plan.guard is not None and plan.guard == profile.guard else {}


def expected_hits(profile: ReuseProfile, terms: Terms, level: str, step: int, steps: int) -> float:
    """Return the share of hits that a profile expects on a level, in hits that save all of its step K of N steps."""
    rows = neighbours_of(profile, terms.key)
    if not rows:
        return profile.hits.get(level, 0.0)
    shares = step_shares(rows, terms, step / steps, steps)
    return math.fsum(share * at for at, share in shares.items()) / step


def neighbours_of(profile: ReuseProfile, key: str) -> tuple[Neighbours, ...]:
    """Return how similar the nearest neighbours are by a plan's key."""
    return profile.image_neighbours if key == TEXT_IMAGE else profile.neighbours


def step_shares(rows: Sequence[Neighbours], terms: Terms, route_share: float, steps: int) -> dict[int, float]:
    """K -> share of the requests that begin at step K of `steps`; at 0 those that run in full. Sums to 1."""
    shares: dict[int, float] = {}
    for row in rows:
        by_floor = min(route_share, terms.floors.share(row.similarity))
        for verdict, part in (row.verdicts or {Verdict.EQUAL.value: 1.0}).items():
            step = step_of(min(by_floor, guard_share(terms.guard, verdict)), steps)
            shares[step] = shares.get(step, 0.0) + row.share * part
    shares[0] = shares.get(0, 0.0) + max(0.0, 1.0 - math.fsum(row.share for row in rows))
    return shares


def guard_share(guard: GuardShares | None, verdict: str) -> float:
    """Return the share of the steps that a guard allows for a verdict, or for a kind of difference."""
    return NO_GUARD if guard is None else allowed_share(guard, comparison_of(verdict))


def comparison_of(verdict: str) -> Comparison:
    """Return the comparison that a profile's word stands for: a verdict, or the one kind of difference."""
    if verdict in {each.value for each in Verdict} - {Verdict.DIFFERS.value}:
        return Comparison(Verdict(verdict))
    return Comparison(Verdict.DIFFERS, frozenset({Difference(verdict)}))


def blended(expected: float, seen: ObservedHits | None) -> float:
    """Return the share of hits to plan with, from the profile's and what was seen."""
    if seen is None or not seen.jobs:
        return expected
    prior = max(0, PRIOR - seen.jobs)
    mean = (prior * expected + seen.jobs * seen.rate) / (prior + seen.jobs)
    return round(round(mean / STEP) * STEP, 6)


def repeats_less(plan: ReusePlan, profile: ReusePlan) -> bool:
    """Whether fewer hits were seen than the profile expects, so that it is worth seeing whether that has changed."""
    return any(profile.hits[level] - rate > STEP for level, rate in plan.hits.items())


def with_lookups(routes: Sequence[Route], level: str, share: float) -> tuple[Route, ...]:
    """Return the routes on which so great a share of the requests for a reuse level's variant begins as that level.

    The others of them run in full, and are not looked up. Requests for other variants go where they went.
    """
    return tuple(replace(route, levels=_with_lookups(route.levels, level, share)) for route in routes)


def _with_lookups(levels: Mapping[str, float], level: str, share: float) -> dict[str, float]:
    full = variant_of(level)
    both = levels.get(full, 0.0) + levels.get(level, 0.0)
    others = {name: chance for name, chance in levels.items() if name not in (full, level)}
    return others | {name: part * both for name, part in ((full, 1 - share), (level, share)) if part * both > 0}
