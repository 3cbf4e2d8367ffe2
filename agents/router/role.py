"""The router: `classified` -> a job on the level that the plan in force draws, for the worker that is first free."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agents.router.dispatcher import Dispatcher
from agents.runtime.records import outcome_record, refused
from agents.runtime.views import EndedView, Loads, PlanView
from planner.catalog.model import Catalog
from planner.catalog.options import MOST_PICTURES, check_options, job_ms
from planner.serving.outcomes import failed, turned_away
from planner.serving.placement import OVERLOADED, SHED, Place, TurnedAway, decide, limit_ms
from planner.serving.quotas import Quota
from planner.serving.reroute import ANY_MS
from planner.serving.tenants import Rights, Work
from planner.serving.worker_loads import shortest_ms
from schemas import topics
from schemas.messages import ClassifiedRequest, GenerateRequest, Plan
from schemas.record import Delivered, Headers, Incoming, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.codec.requests import request_id_of
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
        tenants: "Tenants",
        limits: Admission,
    ) -> None:
        self._catalog = catalog
        self._plans = plans
        self._ended = ended
        self._dispatcher = dispatcher
        self._tenants = tenants
        self._limits = limits

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """A job, an early end, or nothing for a request that has ended or has its job.

        What is open has its job: the host writes what is returned here before it asks about the next record, and acks
        in order, so that a repetition is acked after the job is acknowledged. A process that dies in between knows
        nothing of it, and the request is decided on anew.
        """
        classified = decode(record.value, ClassifiedRequest)
        request = classified.request
        check_options(request, MOST_PICTURES)  # who wrote it may not have
        if self._has_ended(request.request_id):
            return []
        if self._tenants.is_open(request.request_id, now_ms()):
            metrics.REPEATED.inc()
            return []
        plan = await self._plans.in_force()
        seen = self._dispatcher.look()
        fate = self._fate(plan, classified, seen)
        if isinstance(fate, TurnedAway):
            if fate.code == SHED:
                metrics.SHED.labels(request.tier).inc()
            outcome = turned_away(fate, classified, by=self.role, policy=plan.policy, now_ms=now_ms())
            return [outcome_record(outcome, record.headers, now_ms())]
        if self._has_ended(request.request_id):  # before it was open: nobody else would close it
            return []
        return [await self._job(plan, classified, fate, record.headers, seen)]

    def _has_ended(self, request_id: str) -> bool:
        if request_id not in self._ended:
            return False
        metrics.DEAD_WORK.labels(self.role).inc()
        self._tenants.ended(request_id)
        return True

    async def _job(
        self, plan: Plan, classified: ClassifiedRequest, fate: Place, cause: Headers, seen: Loads
    ) -> Outgoing:
        if fate.fallback:
            metrics.FALLBACKS.labels(self.role, fate.fallback).inc()
        try:
            return await self._dispatcher.place(
                plan, classified, fate.level, probability=fate.probability, cause=cause, seen=seen
            )
        except BaseException:  # cancelled, or too large: it has no job
            self._tenants.ended(classified.request.request_id)
            raise

    def _fate(self, plan: Plan, classified: ClassifiedRequest, seen: Loads) -> Place | TurnedAway:
        """The planner's decision, then the tenant's rights: a request that is refused anyway takes no tokens."""
        request = classified.request
        allowed_ms = 1000 * self._limits.max_backlog_s * max(1, sum(len(loads) for loads in seen.values()))
        fate = self._decided(self._tenants.let_in(plan, request, now_ms()), classified, seen, allowed_ms)
        if isinstance(fate, TurnedAway):
            return fate
        work_ms = job_ms(self._catalog.level(fate.level), request.options)
        return self._tenants.refuse(request, work_ms, allowed_ms, now_ms()) or fate

    def _decided(self, plan: Plan, classified: ClassifiedRequest, seen: Loads, allowed_ms: float) -> Place | TurnedAway:
        """The backlog of others is no reason to turn away a tenant that has less than its share of it."""
        request, limits = classified.request, self._limits
        most_ms = limit_ms(limits.max_backlog_s, request.tier, limits.interactive_headroom)
        waits_ms = {level: shortest_ms(loads) for level, loads in seen.items()}
        fate = decide(plan, classified, self._catalog, waits_ms, now_ms(), most_ms)
        is_full = isinstance(fate, TurnedAway) and fate.code == OVERLOADED
        if is_full and self._tenants.is_crowded_out(request.tenant, allowed_ms):
            return decide(plan, classified, self._catalog, waits_ms, now_ms(), ANY_MS)
        return fate

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Tell the dispatcher where its jobs lie."""
        self._dispatcher.on_delivered(record, delivered)

    def on_undelivered(self, record: Outgoing) -> None:
        """Nobody has its job before them."""
        self._dispatcher.on_undelivered(record)

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """A plan or record that cannot be obeyed ends the request as FAILED."""
        outcome = failed(request_id_of(record), reason=str(error), by=self.role, now_ms=now_ms())
        return refused(record, outcome, error, now_ms())


class Tenants:
    """The tenants' rights (`planner/serving/tenants.py`) of one router process, for its two threads.

    Thread-safe: the router asks and opens, a follower of `results` closes. Several routers each keep their own.
    """

    def __init__(self, quotas: Mapping[str, Quota]) -> None:
        self._rights = Rights(quotas)
        self._lock = threading.Lock()

    def refuse(self, request: GenerateRequest, work_ms: float, allowed_ms: float, now_ms: int) -> TurnedAway | None:
        """Why the tenant may not have this now, or None: then its tokens are taken and its work is open."""
        work = Work(request.request_id, request.tenant, request.options.n, work_ms)
        with self._lock:
            return self._rights.refuse(work, allowed_ms, now_ms)

    def let_in(self, plan: Plan, request: GenerateRequest, now_ms: int) -> Plan:
        """The plan, with the tenant's part of what it lets in of the tier; it has asked for one more."""
        with self._lock:
            admission = self._rights.let_in(plan.admission, request.tier, request.tenant, now_ms)
        return plan if admission is plan.admission else replace(plan, admission=admission)

    def is_crowded_out(self, tenant: str, allowed_ms: float) -> bool:
        """Whether the backlog is that of others, so that it is no reason to refuse this one."""
        with self._lock:
            return self._rights.is_crowded_out(tenant, allowed_ms)

    def is_open(self, request_id: str, now_ms: int) -> bool:
        """Whether the request was let in, of late, and has not ended."""
        with self._lock:
            return self._rights.is_open(request_id, now_ms)

    def ended(self, request_id: str) -> None:
        """The request has a result: its work is open no more."""
        with self._lock:
            self._rights.ended(request_id)
