"""The planner: watches prompts, results and workers, runs the active policy, publishes a Plan when it decides anew.

Of several planners one leads (`leadership.py`); the others watch, and plan from what they have seen when they lead.
"""

import threading
import time
from typing import Protocol

from agents.planner import ROLE
from agents.planner.gauges import FleetGauges
from agents.planner.leadership import Leadership
from agents.planner.observe import Fleet, Sources
from agents.planner.propose import DecisionReport, PolicyThread, logic_of
from agents.runtime.records import outgoing
from planner.catalog.model import Catalog
from planner.control.planning import TICK_MS, PlannerLogic, PlanRequest, PlansInForce
from schemas import topics
from schemas.messages import Plan
from schemas.record import Outgoing
from streams.clock import now_ms
from streams.control.records import Place
from streams.kafka.transactions.barrier import Barrier
from streams.kafka.transactions.lease import Lease
from streams.settings import Settings

TICK_S = TICK_MS / 1000


class Plans(PlansInForce, Protocol):
    """The part of `PlanView` that the loop uses."""

    @property
    def place(self) -> Place:
        """The position up to which the topic is read, which is stamped on a plan for readers that start with it."""
        ...

    def obey(self, plan: Plan) -> None:
        """Take over a plan, if it is newer and fits the catalog."""
        ...

    def catch_up(self, barrier: Barrier) -> None:
        """Take over what lies on the topic before this."""
        ...


class PlannerLoop:
    """The loop of one planner. `run` blocks until `stopping` is set."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        lease: Lease,
        plans: Plans,
        fleet: Fleet,
        logic: PlannerLogic | None = None,
    ) -> None:
        """`logic`: whose decisions it carries out; None: that of the settings."""
        self._plans, self._fleet = plans, fleet
        self._leadership = Leadership(lease, settings.planner.leader_timeout_ms, now_ms)
        self._logic = logic or logic_of(settings, catalog)
        self._policies = PolicyThread(settings.planner.solver_timeout_s)
        self._report = DecisionReport()
        self._gauges = FleetGauges(settings.planner.worker_timeout_ms)
        self.sources = Sources(settings, catalog, fleet)
        self._was_leading = self._is_watching = False

    def not_ready(self) -> str:
        """Why it does not plan yet; any thread may ask. One that stands by is ready to."""
        return "" if self._is_watching else "reads the prompts and results of late"

    def run(self, stopping: threading.Event) -> None:
        """Lead if it may: plan at once, then on a period and whenever something calls for it."""
        try:
            self.sources.open()
            while not stopping.is_set():
                self.step(time.monotonic_ns() // 1_000_000, now_ms())
                stopping.wait(TICK_S)
        finally:
            self._leadership.resign()
            self.sources.close()

    def step(self, monotonic_ms: int, now: int) -> None:
        """Watch; and, leading, plan if it is time to."""
        self.sources.on_heartbeats()
        if self._leadership.leads(monotonic_ms):
            if not self._was_leading:  # what was planned before it led must be known: versions only rise
                assert self._leadership.barrier is not None
                self._plans.catch_up(self._leadership.barrier)
                self._logic.begin()
            self._gauges.on_heartbeats(self._fleet.heartbeats, now)
            self.tick(now)
        if self._was_leading and not self._leadership.is_leading:
            self._report.on_leadership_lost()
        self._was_leading = self._leadership.is_leading
        self._gauges.leads(self._was_leading)
        self._is_watching = True

    def tick(self, now: int) -> None:
        """Plan anew when the period is over, or workers, an operator or the backlog call for it."""
        request = self._logic.due(now, self._fleet.heartbeats, self._plans, self.sources.asked(now))
        if request is not None:
            self._plan(request)

    def _plan(self, request: PlanRequest) -> None:
        seen = self.sources.observation(request.now_ms, request.workers, self._plans.plan)
        self._gauges.on_observation(seen, self._plans.plan)
        decision = self._logic.decide(seen, self._plans, self._policies.run)
        self._report.on_decision(decision)
        self._report.on_expected(request, decision)
        plan = decision.plan
        if plan is not None and self._leadership.write([_record(plan, self._plans.place, request.now_ms)]):
            self._plans.obey(plan)  # at once: a tick before the view has read it would write its version a second time
            self._report.on_published(request, decision)


def _record(plan: Plan, place: Place, now: int) -> Outgoing:
    return outgoing(
        topics.PLAN, plan, request_id=topics.PLAN_KEY, cause={}, role=ROLE, now_ms=now,
        facts={"policy": plan.policy, "version": plan.version, **place.facts()},
    )  # fmt: skip
