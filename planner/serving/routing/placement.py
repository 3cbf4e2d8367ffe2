"""The placement of a request, the choice of its first level, and the job that it becomes.

`planner.serving.routing.routing` places it; `planner.serving.decisions` has what else it may decide.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from planner.catalog.options import ResolvedOptions, honoured
from schemas.errors import InvalidPlan
from schemas.ids import draw, job_id
from schemas.messages import ClassifiedRequest, GenerateJob, Plan, Route, Stage

CHEAPER, DEARER = "cheaper-level", "dearer-level"
SALT = "route"  # never the plan's version: under the same route a request keeps its level across re-plans


class Placement(NamedTuple):
    """The request becomes a job on this level."""

    level: str
    variant: str  # that serves the level
    options: ResolvedOptions  # as the variant honours them
    run_ms: float  # predicted time of the job alone, without judging its images
    probability: float  # of the level under the plan; 0 where it was not drawn: requested, or a fallback
    fallback: str = ""  # CHEAPER: for its deadline or the backlog | DEARER: no cheaper one is served or in time

    @property
    def overridden(self) -> tuple[str, ...]:
        """The options that the variant does not honour, with what it does instead."""
        return self.options.overridden


class Choice(NamedTuple):
    """A level and how probable it was under the plan, so that history can evaluate another plan."""

    level: str
    probability: float


def choose_level(plan: Plan, request_id: str, hardness: float, classes: Mapping[str, str]) -> Choice:
    """The first level of a request by the plan's routes; equal for equal requests and routes.

    The route of the request's class under the plan's strategy comes first, else that of its hardness in [0, 1].
    Raises InvalidPlan when neither has one. Source: ARGUS 4.4 (PASM draw), HADIS 3.3 (hardness interval).
    """
    return sample(choices_of(route_of(plan, hardness, classes)), request_id)


def choices_of(route: Route) -> list[Choice]:
    """Return the levels of a route that can be drawn, in the order in which `sample` goes through them."""
    return [Choice(*item) for item in sorted(route.levels.items()) if item[1] > 0]


def sample(choices: Sequence[Choice], request_id: str) -> Choice:
    """Draw one of the choices of a route, by the request's own random number."""
    if len(choices) > 1:
        drawn, below = draw(request_id, SALT), 0.0
        for choice in choices:
            below += choice.probability
            if drawn < below:
                return choice
    return choices[-1]  # the probabilities may sum to a hair less than 1


def only_choice(plan: Plan) -> Choice | None:
    """Return the choice of `choose_level` if it is equal for every request; None: it depends on the request."""
    drawn = {item for route in plan.routes for item in route.levels.items() if item[1] > 0}
    covers = any(not route.label and route.hardness_from <= 0 and route.hardness_to >= 1 for route in plan.routes)
    return Choice(*drawn.pop()) if covers and len(drawn) == 1 else None


def odds(plan: Plan, hardness: float, classes: Mapping[str, str]) -> Mapping[str, float]:
    """Return level -> probability of being drawn for this hardness and these classes. Raises InvalidPlan."""
    return route_of(plan, hardness, classes).levels


def route_of(plan: Plan, hardness: float, classes: Mapping[str, str]) -> Route:
    """The route that a plan has for a request of this hardness and these classes. Raises InvalidPlan."""
    label = classes.get(plan.strategy, "")
    if label:
        for route in plan.routes:
            if route.label == label:
                return route
    for route in plan.routes:
        inside = route.hardness_from <= hardness < route.hardness_to or hardness == route.hardness_to == 1.0
        if not route.label and inside:
            return route
    raise InvalidPlan(f"plan {plan.version} has no route for class {label!r} at hardness {hardness}")


def placed_job(
    classified: ClassifiedRequest,
    placement: Placement,
    share: float,
    *,
    plan_version: int,
    now_ms: int,
    path: tuple[Stage, ...] = (),
    attempt: int = 1,
) -> GenerateJob:
    """The job of a placement, without a worker. `share`: of its steps, that its level lets a stored latent save.

    `attempt`: number of owners that the job will have met, the next one included.
    """
    return GenerateJob(
        job_id=job_id(classified.request.request_id, len(path), placement.level),
        classified=classified,
        level=placement.level,
        variant=placement.variant,
        stage=len(path),
        attempt=attempt,
        probability=placement.probability,
        plan_version=plan_version,
        worker_id="",
        routed_ms=now_ms,
        path=path,
        overridden=placement.overridden,
        refine_from_step=0 if share else placement.options.refine_from_step,
        reuse_share=share,
        honoured=honoured(classified.request.options, placement.options),
    )
