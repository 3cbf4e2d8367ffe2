"""Where a job goes that is too late for its own level when a worker comes to it: to a cheaper one that has time.

The router has asked the same before (`routing.py`), by what it knew of the queues then; a plan may have taken workers
from a queue since, or a call may have taken longer. The live worker (`agents/worker/generate.py`) and the simulated one
(`replay/simulation/roles/workers/serving.py`) ask. A job with a draft needs none: its draft is the answer.
"""

from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.catalog.options import resolve_options, resolved_ms
from planner.serving.admission.admission import can_meet, predicted_finish_ms
from planner.serving.requests import ClassifiedValues
from planner.serving.routing.cascades import judged_ms, may_escalate
from planner.serving.routing.placement import CHEAPER, Placement
from planner.serving.routing.routing import ANY_QUALITY
from schemas.messages import Plan


class RefugeLogic:
    """Decides on jobs that are too late for their level. Knows no clock and no load; obeys any plan."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def placement(self, classified: ClassifiedValues, level: str, plan: Plan, now_ms: float) -> Placement | None:
        """The placement of a job of `level` on another one; None: no other is in time, or may stand in.

        It is the cheapest level that the plan gives workers: whoever asks does not know who is free, and that one has
        the most room. None stands in for a level that the request named, by its quality, its model or its components.
        """
        request = classified.request
        if request.quality != ANY_QUALITY or not may_escalate(request, self._catalog):
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
