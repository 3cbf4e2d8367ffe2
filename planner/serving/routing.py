"""Which level a request goes to first: the plan's route and the request's own dice."""

from collections.abc import Mapping
from typing import NamedTuple

from schemas.errors import InvalidPlan
from schemas.ids import draw
from schemas.messages import Plan, Route

SALT = "route"  # never the plan's version: under the same route a request keeps its level across re-plans


class Choice(NamedTuple):
    """A level and how probable it was under the plan, so that history can evaluate another plan."""

    level: str
    probability: float


def choose_level(plan: Plan, request_id: str, hardness: float, classes: Mapping[str, str]) -> Choice:
    """The level to paint on first; the same for the same request and route.

    The route of the request's class under the plan's strategy comes first, else that of its hardness in [0, 1].
    Raises InvalidPlan when neither has one. Source: ARGUS 4.4 (PASM draw), HADIS 3.3 (hardness interval).
    """
    levels = sorted(item for item in odds(plan, hardness, classes).items() if item[1] > 0)
    if len(levels) == 1:
        return Choice(*levels[0])
    drawn, below = draw(request_id, SALT), 0.0
    for level, probability in levels:
        below += probability
        if drawn < below:
            return Choice(level, probability)
    return Choice(*levels[-1])  # the probabilities may sum to a hair less than 1


def odds(plan: Plan, hardness: float, classes: Mapping[str, str]) -> Mapping[str, float]:
    """level -> probability of being drawn for a request of this hardness and these classes. Raises InvalidPlan."""
    return _route(plan, hardness, classes.get(plan.strategy, "")).levels


def _route(plan: Plan, hardness: float, label: str) -> Route:
    if label:
        for route in plan.routes:
            if route.label == label:
                return route
    for route in plan.routes:
        inside = route.hardness_from <= hardness < route.hardness_to or hardness == route.hardness_to == 1.0
        if not route.label and inside:
            return route
    raise InvalidPlan(f"plan {plan.version} has no route for class {label!r} at hardness {hardness}")
