"""The router: `classified` -> a job on the level that the plan in force draws, for the worker that is first free."""

from collections.abc import Sequence

from agents.dispatching import Dispatcher
from agents.tenants import Tenants
from agents.views import EndedView, Loads, PlanView
from agents.writing import outcome_record, refused
from planner.backlog import limit_ms
from planner.catalog import Catalog
from planner.loads import shortest_ms
from planner.options import MOST_PICTURES, check_options, job_ms
from planner.outcomes import failed, turned_away
from planner.placement import SHED, Place, TurnedAway, decide
from schemas import topics
from schemas.messages import ClassifiedRequest, Plan
from schemas.record import Delivered, Incoming, Outgoing
from streams import metrics
from streams.codec import decode
from streams.reading import now_ms
from streams.request_codec import request_id_of
from streams.settings import Admission


class Router:
    """`StreamLogic` of the router: obeys any plan, knows no policy."""

    role = "router"
    source = topics.CLASSIFIED

    def __init__(
        self,
        catalog: Catalog,
        plans: PlanView,
        ended: EndedView,
        dispatcher: Dispatcher,
        tenants: Tenants,
        limits: Admission,
    ) -> None:
        self._catalog, self._plans, self._ended, self._dispatcher = catalog, plans, ended, dispatcher
        self._tenants, self._limits = tenants, limits

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """A job, an early end, or nothing for a request that has ended."""
        classified = decode(record.value, ClassifiedRequest)
        request = classified.request
        check_options(request, MOST_PICTURES)  # who wrote it may not have
        if request.request_id in self._ended:
            metrics.DEAD_WORK.labels(self.role).inc()
            return []
        plan = await self._plans.in_force()
        seen = self._dispatcher.look()
        fate = self._fate(plan, classified, seen)
        if isinstance(fate, TurnedAway):
            if fate.code == SHED:
                metrics.SHED.labels(request.tier).inc()
            outcome = turned_away(fate, classified, by=self.role, policy=plan.policy, now_ms=now_ms())
            return [outcome_record(outcome, record.headers, now_ms())]
        if fate.is_lowered:
            metrics.FALLBACKS.labels(self.role, "cheaper-level").inc()
        job = await self._dispatcher.place(
            plan, classified, fate.level, probability=fate.probability, cause=record.headers, seen=seen
        )
        return [job]

    def _fate(self, plan: Plan, classified: ClassifiedRequest, seen: Loads) -> Place | TurnedAway:
        """The planner's decision, then the tenant's rights: a request that is refused anyway takes no tokens."""
        request, limits = classified.request, self._limits
        most_ms = limit_ms(limits.max_backlog_s, request.tier, limits.interactive_headroom)
        waits_ms = {level: shortest_ms(loads) for level, loads in seen.items()}
        fate = decide(plan, classified, self._catalog, waits_ms, now_ms(), most_ms)
        if isinstance(fate, TurnedAway):
            return fate
        work_ms = job_ms(self._catalog.level(fate.level), request.options)
        allowed_ms = 1000 * limits.max_backlog_s * max(1, sum(len(loads) for loads in seen.values()))
        return self._tenants.refuse(request, work_ms, allowed_ms, now_ms()) or fate

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Tell the dispatcher where its jobs lie."""
        self._dispatcher.on_delivered(record, delivered)

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """A plan or record that cannot be obeyed ends the request as FAILED."""
        outcome = failed(request_id_of(record), reason=str(error), by=self.role, now_ms=now_ms())
        return refused(record, outcome, error, now_ms())
