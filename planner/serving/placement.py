"""A request's fate at the router: the level it is painted on, or how it ends instead."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from planner.catalog.options import job_ms, settle
from planner.catalog.parse import Catalog
from planner.serving.admission import can_meet, is_admitted, level_in_time, predicted_finish_ms
from planner.serving.backlog import Refused, admit
from planner.serving.escalation import judged_ms
from planner.serving.wishes import wished
from schemas.messages import ClassifiedRequest, Plan, Status

DEADLINE = "deadline"
SHED = "shed"
UNHONOURED = "unhonoured"
CHEAPER, DEARER = "cheaper-level", "dearer-level"


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
