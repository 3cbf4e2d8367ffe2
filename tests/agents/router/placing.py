"""Placements as a router or a discriminator decides them, and what a dispatcher reports of the time that they take."""

from agents.router.dispatcher import Dispatcher
from planner.catalog.options import job_ms, resolve_options, resolved_ms
from planner.serving.routing.placement import Placement
from schemas.messages import GenerateOptions
from streams.clock import now_ms
from tests.builders import a_catalog, a_plan


def on(level: str, refine_from_step: int = 0) -> Placement:
    """A request without options on a level of the tests' catalog."""
    variant = a_catalog().level(level)
    options = resolve_options(GenerateOptions(), variant, refine_from_step)
    return Placement(level, variant.name, options, resolved_ms(variant, options), 1.0)


def finish_in_ms(dispatcher: Dispatcher, level: str, refine_from_step: int = 0) -> float:
    """Time until a job that is sent to a level now has its images; infinite when nobody serves the level."""
    variant = a_catalog().level(level)
    wait_ms = dispatcher.loads(a_plan(allocation={}), now_ms()).wait_ms(variant.name)
    return wait_ms + job_ms(variant, GenerateOptions(), refine_from_step)
