"""The router: `classified` -> a job on a level and for a worker, or an early end. `RoutingLogic` decides."""

from collections.abc import Sequence

from agents.router.dispatcher import Dispatcher
from agents.runtime.records import outcome_record, refused
from agents.runtime.views import PlanView
from planner.serving.decisions import ENDED, SHED, Ignored, Rejection
from planner.serving.ending.outcomes import failed, turned_away
from planner.serving.routing.placement import Placement
from planner.serving.routing.routing import RoutingLogic
from schemas import topics
from schemas.messages import ClassifiedRequest, Plan
from schemas.record import Delivered, Headers, Incoming, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.codec.request_ids import request_id_of


class Router:
    """`StreamLogic` of the router: decodes, has the logic decide, encodes."""

    role = "router"
    source = topics.CLASSIFIED

    def __init__(self, logic: RoutingLogic, plans: PlanView, dispatcher: Dispatcher) -> None:
        self._logic = logic
        self._plans = plans
        self._dispatcher = dispatcher

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """Return a job, an early end, or nothing for a request that has ended or has its job.

        What is in flight has its job: the host writes what is returned here before it asks about the next record, and
        acks in order, so that a repetition is acked after the job is acknowledged. A process that dies in between knows
        nothing of it, and the request is decided on anew.
        """
        classified = decode(record.value, ClassifiedRequest)
        plan, at_ms = await self._plans.in_force(), now_ms()
        loads = self._dispatcher.loads(plan, at_ms, classified.request.tier)
        decision = self._logic.route(classified, plan, loads, at_ms)
        match decision:
            case Placement():
                return [self._job(plan, classified, decision, record.headers)]
            case Rejection():
                if decision.code == SHED:
                    metrics.SHED.labels(classified.request.tier).inc()
                outcome = turned_away(decision, classified, by=self.role, policy=plan.policy, now_ms=at_ms)
                return [outcome_record(outcome, record.headers, at_ms)]
            case Ignored():
                (metrics.DEAD_WORK.labels(self.role) if decision is ENDED else metrics.REPEATED).inc()
                return []

    def _job(self, plan: Plan, classified: ClassifiedRequest, placement: Placement, cause: Headers) -> Outgoing:
        if placement.fallback:
            metrics.FALLBACKS.labels(self.role, placement.fallback).inc()
        try:
            return self._dispatcher.send(plan, classified, placement, cause=cause)
        except BaseException:  # too large: it has no job
            self._logic.abandon(classified.request.request_id)
            raise

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Report the offset of a delivered job to the dispatcher."""
        self._dispatcher.on_delivered(record, delivered)

    def on_undelivered(self, record: Outgoing) -> None:
        """Report to the dispatcher that a job was not written."""
        self._dispatcher.on_undelivered(record)

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """A plan or record that cannot be obeyed ends the request as FAILED."""
        outcome = failed(request_id_of(record), reason=str(error), by=self.role, now_ms=now_ms())
        return refused(record, outcome, error, now_ms())
