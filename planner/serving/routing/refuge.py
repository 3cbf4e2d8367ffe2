"""Where a job goes that is too late for its own level when a worker comes to it: to a cheaper one that has time.

The router has asked the same before (`routing.py`), by what it knew of the queues then; a plan may have taken workers
from a queue since, or a call may have taken longer. By a soft deadline a job is late only where a plan has taken
workers from its level since it was routed: what an outage or a restart held up is generated as planned. Without this
200 to 300 jobs of a burst, whose level kept one of three workers, waited up to 25 s at an SLO of 2 s. A worker's
`WindowLogic` asks, live and simulated. A job with a draft needs none: its draft is the answer.
"""

import math
from collections import Counter

from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.catalog.options import resolve_options, resolved_ms
from planner.serving.deadlines import can_meet, predicted_finish_ms
from planner.serving.dispatch.worker import SETTLE_MS
from planner.serving.requests import ClassifiedValues
from planner.serving.routing.cascades import judged_ms, may_escalate
from planner.serving.routing.placement import CHEAPER, Placement
from planner.serving.routing.routing import ANY_QUALITY
from planner.serving.routing.soft_deadline import WHENEVER, Deadlines, Due
from schemas.messages import Plan


class RefugeLogic:
    """Decides on jobs that are too late for their level. Knows no clock and no load; obeys any plan."""

    def __init__(self, catalog: Catalog, slo_ms: float = 0.0) -> None:
        """`slo_ms`: see `Deadlines`."""
        self._catalog, self._deadlines = catalog, Deadlines(catalog, slo_ms)
        self._version = -1
        self._workers = Counter[str]()  # of each variant in the plan in force
        self._taken_ms: dict[str, float] = {}  # variant -> when the last plan was made that took workers from it

    def obey(self, plan: Plan) -> None:
        """Take over the plan in force."""
        if plan.version == self._version:
            return
        workers = Counter(plan.allocation.values())
        self._taken_ms |= dict.fromkeys(self._workers - workers, plan.created_ms)
        self._version, self._workers = plan.version, workers

    def due(self, classified: ClassifiedValues, level: str, routed_ms: float) -> Due:
        """Return the time by which a job of `level` must be answered there. `routed_ms`: when it was sent there."""
        due = self._deadlines.of(classified)
        taken_ms = self._taken_ms.get(variant_of(level), -math.inf)
        return WHENEVER if due.is_soft and routed_ms > taken_ms + SETTLE_MS else due

    def placement(self, classified: ClassifiedValues, level: str, plan: Plan, now_ms: float) -> Placement | None:
        """The placement of a job of `level` on another one; None: no other is in time, or may stand in.

        It is the cheapest level that the plan gives workers, which has the most room: the caller does not know which
        worker is free. None stands in for a level that the request named, by its quality, its model or its
        components, nor for one that promises what it states.
        """
        request = classified.request
        is_free = request.quality == ANY_QUALITY and request.options.quality_at_least is None
        if not is_free or not may_escalate(request, self._catalog):
            return None
        allocated = set(plan.allocation.values())
        cheaper = [variant for variant in self._catalog.cheaper_than(variant_of(level)) if variant.name in allocated]
        ways = [(variant, resolve_options(request.options, variant)) for variant in cheaper]
        if request.options.strict:
            ways = [way for way in ways if not way[1].overridden]
        if not ways:
            return None
        variant, options = ways[-1]
        run_ms = resolved_ms(variant, options)
        total_ms = run_ms + judged_ms(plan, classified, variant.name, self._catalog)
        if not can_meet(request.deadline_ms, predicted_finish_ms(now_ms, 0.0, total_ms)):
            return None
        return Placement(variant.name, variant.name, options, run_ms, 0.0, CHEAPER)
