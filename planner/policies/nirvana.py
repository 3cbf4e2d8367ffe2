"""`nirvana`: the best variant on every worker at any load, each prompt begun as far along as its neighbour is similar.

Source: NIRVANA as ARGUS 5.1 extends it: one replica a worker, load spread evenly; its own floors where a profile has
none. MoDM's floors are another table: those of the prompt's similarity to the stored image, for simulation. We differ:
a final latent is noised to step K, where NIRVANA keeps five intermediate ones; `guard=1` compares facts, which it does
not.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.catalog.model import Catalog
from planner.catalog.quality import levels_of
from planner.catalog.reuse import ReuseProfile
from planner.control.allocation import assign
from planner.control.proposal import AS_PUBLISHED, BATCH, Parameter, PlanProposal, on_terms, validate_parameters
from planner.observation.observation import Observation
from planner.reuse.planning import TEXT_IMAGE, level_of, losses_of, neighbours_of, reuse_plan
from planner.reuse.steps import step_of
from planner.solvers.levels.level_mix import Mix, Offer, expected_of, offers_of, reuse_offers, routes_of
from schemas.messages import ReuseFloor, ReusePlan

PROFILE, PUBLISHED, MODM = 0, 1, 2  # whose floors

PARAMETERS = {
    "batch": BATCH,
    "floors": Parameter(PROFILE, PROFILE, MODM, is_whole=True),  # 1: NIRVANA's; 2: MoDM's; 0: the profile's, else 1
    "guard": Parameter(0, 0, 1, is_whole=True),  # 1: facts are compared, as the profile allows it
    "shift": Parameter(0, -1, 1),  # of the floors' similarity: lower floors let more images begin further along
}

# Similarity -> share of 50 steps. Source: NIRVANA as MoDM re-implements it (K = 5, 10, 15, 20, 25)
NIRVANA_FLOORS: Final = tuple(
    ReuseFloor(similarity=similarity, share=k / 50)
    for similarity, k in ((0.65, 5), (0.75, 10), (0.85, 15), (0.9, 20), (0.95, 25))
)
# CLIP's cosine of prompt and image -> share of 50 steps. Source: MoDM's code (K = 5, 10, 15, 25, 30)
MODM_FLOORS: Final = tuple(
    ReuseFloor(similarity=similarity, share=k / 50)
    for similarity, k in ((0.25, 5), (0.27, 10), (0.28, 15), (0.29, 25), (0.3, 30))
)


@on_terms(AS_PUBLISHED)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Put all workers on one variant, K left to each prompt's similarity. Parameters: batch, floors, guard, shift."""
    del memory  # constant in time
    settings = validate_parameters(parameters, PARAMETERS)
    batch, n_workers = int(settings["batch"]), len(observation.workers)
    group, words = _reuse_of(observation, catalog, settings)
    offers = _offers(catalog, batch, group)
    base, deepest = offers[0].variant, offers[-1].level
    mix = Mix({base: n_workers}, {deepest: 1.0}, 1.0)
    strategy = "reuse" if group else "models"
    return PlanProposal(
        strategy=strategy,
        routes=routes_of(mix, offers, catalog, strategy, None)[0],
        allocation=assign(mix.counts, observation.workers),
        batch={base: batch},
        expected=expected_of(mix, offers, catalog, observation.planning_rps),
        reason=words,
        reuse=group,
    )


def _offers(catalog: Catalog, batch: int, group: ReusePlan | None) -> tuple[Offer, ...]:
    """The best variant in full; with reuse, it and the level that lets its floors save all that they may."""
    if group is None:
        best = catalog.best().name
        return tuple(offer for offer in offers_of(catalog, {best: batch}) if offer.level == best)
    full, *later = reuse_offers(catalog, batch, group.hits, losses_of(catalog, group))
    tested = level_of(catalog, group.floors) if group.floors == _measured_floors(catalog) else None
    if tested is not None:  # floors that were measured hold for the route that they were tested on
        return full, next(offer for offer in later if offer.level == tested.name)
    most = step_of(group.floors[-1].share, catalog.level(full.variant).steps)
    steps = {level.name: level.reuse_step for level in levels_of(catalog, "reuse")}
    within = [offer for offer in later if steps[offer.level] <= most]
    return full, max(within or later, key=lambda offer: steps[offer.level])


def _measured_floors(catalog: Catalog) -> Sequence[ReuseFloor]:
    return catalog.reuse_profile.floors if catalog.reuse_profile is not None else ()


def _reuse_of(seen: Observation, catalog: Catalog, settings: Mapping[str, float]) -> tuple[ReusePlan | None, str]:
    """Return what the plan says of reuse, and in words what becomes of prompts."""
    profile, whose, is_guarded = catalog.reuse_profile, int(settings["floors"]), settings["guard"] > 0
    if profile is None or not any(level.reuse_step for level in levels_of(catalog, "reuse")):
        return None, "the catalog has no profile of reuse, so every image is begun from noise"
    if is_guarded and profile.guard is None:
        return None, "the profile of reuse has no guard, so every image is begun from noise"
    key = TEXT_IMAGE if whose == MODM else ""
    if whose == MODM and not neighbours_of(profile, key):
        why = "no measurement says from which similarity to stored images on quality holds"
        return None, f"{why}, so every image is begun from noise"
    floors, named = _floors(catalog, profile, whose)
    floors, shift = _shifted(floors, settings["shift"]), settings["shift"]
    group = reuse_plan(
        catalog,
        profile,
        floors,
        seen.reuse.hits if seen.reuse else {},
        guard=profile.guard if is_guarded else None,
        key=key,
    )
    moved = f", shifted by {shift:+g}" if shift else ""
    guarded = ", facts compared" if is_guarded else ""
    return group, f"images begin from similar stored ones by {named} floors{moved}{guarded}"


def _floors(catalog: Catalog, profile: ReuseProfile, whose: int) -> tuple[Sequence[ReuseFloor], str]:
    """Return the floors and whose they are; the profile's only where the catalog has the level that they hold on."""
    if whose == MODM and profile.image_floors:  # MoDM's numbers are of CLIP; its rule holds for any encoder
        return profile.image_floors, "the profile's (by MoDM's rule)"
    if whose == MODM:
        return MODM_FLOORS, "MoDM's"
    if whose == PROFILE and profile.floors:
        if level_of(catalog, profile.floors) is not None:
            return profile.floors, "the profile's"
        return NIRVANA_FLOORS, "NIRVANA's (the profile's hold on no level of the catalog)"
    return NIRVANA_FLOORS, "NIRVANA's"


def _shifted(floors: Sequence[ReuseFloor], shift: float) -> Sequence[ReuseFloor]:
    """Return floors of a similarity higher by `shift`; those above 1 are out of reach, of which one stays at 1."""
    moved = {max(-1.0, floor.similarity + shift): floor.share for floor in floors}
    within = {at: share for at, share in moved.items() if at <= 1} or {1.0: min(moved.values())}
    return tuple(ReuseFloor(similarity=at, share=share) for at, share in within.items()) if shift else floors
