"""Where a request's own wishes lead, before the plan is asked: its quality, and the model it insists on."""

from collections.abc import Callable
from typing import NamedTuple

from planner.catalog.parse import Catalog
from planner.serving.routing import choose_level
from schemas.messages import ClassifiedRequest, Plan

_LEVEL_OF: dict[str, Callable[[Catalog], str]] = {
    "low": lambda catalog: catalog.cheapest().name,
    "medium": lambda catalog: catalog.cheapest().name,
    "high": lambda catalog: catalog.best().name,
}


class Wish(NamedTuple):
    """The level a request goes to first, and how free the pipeline is to do otherwise."""

    level: str
    probability: float  # under the plan; 0 where the request itself decided
    may_move: bool  # to a cheaper level when this one is overloaded or too slow, to a dearer one when nobody serves it


def wished(plan: Plan, classified: ClassifiedRequest, catalog: Catalog) -> Wish:
    """The level for a request: the model it names, else what its quality says, else the plan's draw.

    low, medium: the cheapest level, kept as it is or painted again where rejected. high: the best level. auto: the
    plan's draw. A quality whose level the plan gives no worker is served as auto; a named model waits for a worker.
    Raises InvalidPlan as `choose_level` does.
    """
    request = classified.request
    if request.options.model in catalog.variants:
        return Wish(request.options.model, 0.0, may_move=False)
    level = _LEVEL_OF[request.quality](catalog) if request.quality in _LEVEL_OF else ""
    if level and level in plan.allocation.values():
        return Wish(level, 0.0, may_move=False)
    choice = choose_level(plan, request.request_id, classified.hardness, classified.classes)
    return Wish(choice.level, choice.probability, may_move=True)


def may_escalate(classified: ClassifiedRequest, catalog: Catalog) -> bool:
    """Whether a rejected picture may be painted again: not where the request asked for `low`, or named its model."""
    return classified.request.quality != "low" and classified.request.options.model not in catalog.variants
