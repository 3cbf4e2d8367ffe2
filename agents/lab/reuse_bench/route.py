"""The route and the plan's group of reuse that the bench serves by: what guarded policies plan with the profile."""

from typing import Final, NamedTuple

from planner.catalog.entries import Variant, reuse_share
from planner.catalog.model import Catalog
from planner.catalog.quality import levels_of
from planner.catalog.reuse import ReuseProfile
from planner.reuse.planning import any_neighbour, check_of, guarded_plan, reuse_plan
from planner.reuse.steps import step_of
from schemas.messages import ReuseGuard, ReusePlan

NO_FLOORS: Final = "no floors were measured: nothing is reused; measure them with `pochade profile --reuse`"
NO_LEVELS: Final = (
    "no level of the catalog begins from stored latents: nothing is reused; measure them with `pochade profile`"
)


class Route(NamedTuple):
    """A level on which images may begin from stored latents, and what the plan says of that."""

    level: str  # such as "heavy~k4"
    variant: Variant
    share: float  # of the variant's steps: the most that a hit saves
    plan: ReusePlan


def guarded_route(catalog: Catalog) -> Route | None:
    """Return the level on which the profile's floors and guard are expected to save most steps; None if none saves any.

    Routers may choose smaller shares where quality asks for it: this is the most that reuse is planned to save.
    """
    profile = catalog.reuse_profile
    plan = guarded_plan(catalog, profile, {}) if profile is not None else None
    if plan is None:
        return None
    levels = [level for level in levels_of(catalog, "reuse") if plan.hits.get(level.name, 0.0) > 0.0]
    if not levels:
        return None
    best = max(levels, key=lambda level: (plan.hits[level.name] * level.reuse_step, -level.reuse_step))
    variant = catalog.level(best.variant)
    return Route(best.name, variant, reuse_share(best.name, variant), plan)


def costliest_route(catalog: Catalog) -> Route | None:
    """Return the deepest level, where every lookup compares the facts of all that it finds: for costs and times only.

    Whatever neighbour a search finds, its facts are compared, and equal ones save as many steps as the level has.
    Returns None if no level begins from stored latents.
    """
    levels = [level for level in levels_of(catalog, "reuse") if level.reuse_step]
    if not levels:
        return None
    deepest = max(levels, key=lambda level: level.reuse_step)
    variant = catalog.level(deepest.variant)
    share = reuse_share(deepest.name, variant)
    assert step_of(share, variant.steps) == deepest.reuse_step, f"{deepest.name} of {variant.steps} steps"
    plan = reuse_plan(
        catalog, catalog.reuse_profile or ReuseProfile(), any_neighbour(share), {}, guard=ReuseGuard(equal=share),
        check=check_of(catalog),
    )  # fmt: skip
    return Route(deepest.name, variant, share, plan)
