"""A request's fate at the router: the level it is painted on, or how it ends instead.

`decide` asks in this order: what the plan sheds; where the request's own wishes lead, its quality and the model that it
insists on, before the plan's route and the request's own dice are asked (`wished`); how many seconds of work may wait
(`admit`); what the deadline allows; which options the level honours.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planner.catalog.model import Catalog
from planner.catalog.options import job_ms, settle
from planner.serving.admission import can_meet, is_admitted, level_in_time, predicted_finish_ms
from planner.serving.escalation import judged_ms
from schemas.errors import InvalidPlan
from schemas.ids import draw
from schemas.messages import ClassifiedRequest, Plan, Route, Status

DEADLINE = "deadline"
SHED = "shed"
UNHONOURED = "unhonoured"
CHEAPER, DEARER = "cheaper-level", "dearer-level"
OVERLOADED = "overloaded"
QUOTA = "quota"
SALT = "route"  # never the plan's version: under the same route a request keeps its level across re-plans


@dataclass(frozen=True, slots=True)
class Place:
    """Paint it on this level."""

    level: str
    probability: float  # of the level under the plan; 0 where it was not drawn: a wish, or another's fallback
    overridden: tuple[str, ...]  # options the level does not honour
    fallback: str = ""  # CHEAPER: for its deadline or the backlog | DEARER: nobody serves it or a cheaper one


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """It ends here."""

    status: Status  # REJECTED | EXPIRED
    code: str  # machine-readable
    reason: str
    retry_after_ms: int | None = None


class Admitted(NamedTuple):
    """The request goes to this level."""

    level: str


class Refused(NamedTuple):
    """The request is REJECTED for now."""

    code: str  # OVERLOADED | QUOTA
    reason: str
    retry_after_ms: int


def decide(
    plan: Plan,
    classified: ClassifiedRequest,
    catalog: Catalog,
    wait_ms: Mapping[str, float],
    now_ms: int,
    most_backlog_ms: float,
) -> Place | TurnedAway:
    """What becomes of a classified request, under the plan in force.

    `wait_ms`: level -> ms until its least loaded worker is free, infinite where nobody serves it. What the plan sheds
    comes first, then wishes, admission by backlog, the deadline, and the options. Where nobody serves
    its level or a cheaper one it goes to a dearer one, if that has room and time; else it is placed and waits: a worker
    may come, and the ledger ends it at its deadline. Raises InvalidPlan where no route
    fits.
    Source: design, section 2.3; predictive drop from DiffServe 4.1.
    """
    request = classified.request
    if plan.admission is not None and not is_admitted(plan.admission, request.request_id, request.tier):
        return TurnedAway(Status.REJECTED, SHED, plan.admission.reason, plan.admission.retry_after_ms)
    wish = wished(plan, classified, catalog)

    def lower(level: str) -> list[str]:
        return [variant.name for variant in catalog.cheaper_than(level)] if wish.may_move else []

    def higher(level: str) -> list[str]:
        return [variant.name for variant in catalog.dearer_than(level)] if wish.may_move else []

    def run_ms(level: str) -> float:
        return job_ms(catalog.level(level), request.options) + judged_ms(plan, classified, level, catalog)

    level = first_fit(wish.level, lower, higher, wait_ms, run_ms, request.deadline_ms, now_ms, most_backlog_ms)
    if isinstance(level, Refused):
        return TurnedAway(Status.REJECTED, level.code, level.reason, level.retry_after_ms)
    if level is None:
        late = f"no level would have met deadline_ms {request.deadline_ms}: it was {now_ms} when routed"
        return TurnedAway(Status.EXPIRED, DEADLINE, late)
    overridden = settle(request.options, catalog.level(level)).overridden
    if overridden and request.options.strict:
        told = f"{level} does not honour {'; '.join(overridden)}; drop strict, or ask for what it does"
        return TurnedAway(Status.REJECTED, UNHONOURED, told)
    if level == wish.level:
        return Place(level, wish.probability, overridden)
    return Place(level, 0.0, overridden, CHEAPER if level in lower(wish.level) else DEARER)


def first_fit(
    wanted: str,
    lower: Callable[[str], Sequence[str]],
    higher: Callable[[str], Sequence[str]],
    wait_ms: Mapping[str, float],
    run_ms: Callable[[str], float],
    deadline_ms: float | None,
    now_ms: float,
    most_backlog_ms: float,
) -> str | Refused | None:
    """The wanted level, or a lower one where its backlog or the deadline asks for it; None: none is in time.

    `lower` tells the levels that may stand in for one, the dearest first; `higher` those that do where nobody serves
    any of these, the cheapest first; `run_ms` what painting and judging take on a level. All are asked only for what
    the wanted level cannot answer.
    """

    def is_in_time(name: str) -> bool:
        wait = wait_ms[name]
        return wait <= most_backlog_ms and can_meet(deadline_ms, predicted_finish_ms(now_ms, wait, run_ms(name)))

    if is_in_time(wanted):
        return wanted
    cheaper = lower(wanted)
    admitted = admit(wanted, cheaper, wait_ms, most_backlog_ms)
    if isinstance(admitted, Refused):
        return admitted
    candidates = (admitted.level, *cheaper)
    if all(math.isinf(wait_ms[name]) for name in candidates):
        return next(filter(is_in_time, higher(wanted)), admitted.level)
    finish = {name: predicted_finish_ms(now_ms, wait_ms[name], run_ms(name)) for name in candidates}
    return level_in_time(admitted.level, cheaper, deadline_ms, finish)


def admit(wanted: str, lower: Sequence[str], wait_ms: Mapping[str, float], most_ms: float) -> Admitted | Refused:
    """The wanted level, else the first lower one whose predicted wait is within `most_ms`, else a refusal.

    `wait_ms`: level -> ms until its least loaded worker is free; infinite where nobody serves it: such a level is
    admitted if it is the wanted one and no lower one is served (the request waits for a worker, or for its deadline),
    never fallen back to. `lower` is empty for a request that does not allow a lower level.
    """
    for level in (wanted, *lower):
        if wait_ms[level] <= most_ms:
            return Admitted(level)
    if math.isinf(wait_ms[wanted]):
        return Admitted(wanted)
    seconds = wait_ms[wanted] / 1000
    reason = f"{seconds:.1f} s of work wait before {wanted}; up to {most_ms / 1000:.1f} s are admitted"
    return Refused(OVERLOADED, reason, math.ceil(wait_ms[wanted] - most_ms))


def limit_ms(max_backlog_s: float, tier: str, headroom: float) -> float:
    """The wait a tier is admitted up to, ms: interactive requests may use what `headroom` keeps from the others."""
    return 1000 * max_backlog_s * (1.0 if tier == "interactive" else 1.0 - headroom)


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
