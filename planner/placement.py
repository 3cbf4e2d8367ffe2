"""A request's fate at the router: the level it is painted on, or how it ends instead."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from planner.admission import level_in_time, predicted_finish_ms
from planner.backlog import Refused, admit
from planner.catalog import Catalog
from planner.options import job_ms, settle
from planner.wishes import wished
from schemas.messages import ClassifiedRequest, Plan, Status

DEADLINE = "deadline"
UNHONOURED = "unhonoured"


@dataclass(frozen=True, slots=True)
class Place:
    """Paint it on this level."""

    level: str
    probability: float  # of the level under the plan, 1 where the request itself decided
    overridden: tuple[str, ...]  # options the level does not honour
    is_lowered: bool  # a cheaper level took it, for its deadline or for the backlog


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

    `wait_ms`: level -> ms until its least loaded worker is free, infinite where nobody serves it. Wishes come first,
    then admission by backlog, then the deadline, then the options. A request whose levels nobody serves is placed and
    waits: a worker may come, and the ledger ends it at its deadline. Raises InvalidPlan where no route fits.
    Source: design, section 2.3; predictive drop from DiffServe 4.1.
    """
    wish = wished(plan, classified, catalog)
    lower = [variant.name for variant in catalog.cheaper_than(wish.level)] if wish.may_go_lower else []
    admitted = admit(wish.level, lower, wait_ms, most_backlog_ms)
    if isinstance(admitted, Refused):
        return TurnedAway(Status.REJECTED, admitted.code, admitted.reason, admitted.retry_after_ms)
    level = _in_time(admitted.level, lower, classified, catalog, wait_ms, now_ms)
    if level is None:
        late = f"no level would have met deadline_ms {classified.request.deadline_ms}: it was {now_ms} when routed"
        return TurnedAway(Status.EXPIRED, DEADLINE, late)
    overridden = settle(classified.request.options, catalog.level(level)).overridden
    if overridden and classified.request.options.strict:
        told = f"{level} does not honour {'; '.join(overridden)}; drop strict, or ask for what it does"
        return TurnedAway(Status.REJECTED, UNHONOURED, told)
    return Place(level, wish.probability, overridden, is_lowered=level != wish.level)


def _in_time(
    level: str,
    lower: list[str],
    classified: ClassifiedRequest,
    catalog: Catalog,
    wait_ms: Mapping[str, float],
    now_ms: int,
) -> str | None:
    request = classified.request
    candidates = (level, *lower)
    if all(math.isinf(wait_ms[name]) for name in candidates):
        return level
    finish = {
        name: predicted_finish_ms(now_ms, wait_ms[name], job_ms(catalog.level(name), request.options))
        for name in candidates
    }
    return level_in_time(level, lower, request.deadline_ms, finish)
