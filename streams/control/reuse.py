"""Whether a plan begins images from stored latents: its reuse group says how, its routes for which requests."""

from planner.catalog.entries import reuse_step
from schemas.messages import Plan


def is_asked_for(plan: Plan) -> bool:
    """Whether a route of a plan asks for reuse; a plan may say how before any route does."""
    return plan.reuse is not None and any(reuse_step(level) for route in plan.routes for level in route.levels)
