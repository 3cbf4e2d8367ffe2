"""The router: `classified` -> a job on the level that the plan in force draws, for the worker that is first free."""

from collections.abc import Sequence

from agents.dispatching import Dispatcher
from agents.views import EndedView, PlanView
from agents.writing import outcome_record, refused
from planner.catalog import Catalog
from planner.outcomes import expired, failed
from planner.routing import choose_level
from schemas import topics
from schemas.messages import ClassifiedRequest
from schemas.record import Delivered, Incoming, Outgoing
from streams import metrics
from streams.codec import decode
from streams.reading import now_ms
from streams.request_codec import request_id_of


class Router:
    """`StreamLogic` of the router: obeys any plan, knows no policy."""

    role = "router"
    source = topics.CLASSIFIED

    def __init__(self, catalog: Catalog, plans: PlanView, ended: EndedView, dispatcher: Dispatcher) -> None:
        self._catalog, self._plans, self._ended, self._dispatcher = catalog, plans, ended, dispatcher

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """A job, an expiry, or nothing for a request that has ended."""
        classified = decode(record.value, ClassifiedRequest)
        request = classified.request
        if request.request_id in self._ended:
            metrics.DEAD_WORK.labels(self.role).inc()
            return []
        plan = await self._plans.in_force()
        choice = choose_level(plan, request.request_id, classified.hardness, classified.classes)
        level = self._dispatcher.level_in_time(choice.level, request.deadline_ms)
        if level is None:
            reason = f"no level would have met deadline_ms {request.deadline_ms}: it was {now_ms()} when routed"
            outcome = expired(classified, reason=reason, by=self.role, now_ms=now_ms(), policy=plan.policy)
            return [outcome_record(outcome, record.headers, now_ms())]
        job = await self._dispatcher.place(
            plan, classified, level, probability=choice.probability, cause=record.headers
        )
        return [job]

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Tell the dispatcher where its jobs lie."""
        self._dispatcher.on_delivered(record, delivered)

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """A plan or record that cannot be obeyed ends the request as FAILED."""
        outcome = failed(request_id_of(record), reason=str(error), by=self.role, now_ms=now_ms())
        return refused(record, outcome, error, now_ms())
