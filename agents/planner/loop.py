"""The planner: watches prompts, results and workers, runs the active policy, and publishes each new plan.

One of several planners leads (`leadership.py`); the others watch, so that they can plan at once when they lead.
"""

import logging
import threading
import time
from dataclasses import replace
from typing import Final, Protocol

from agents.planner import ROLE
from agents.planner.gauges import FleetGauges
from agents.planner.leadership import Leadership
from agents.planner.observe import Fleet, Sources
from agents.planner.propose import DecisionReport, PolicyThread, logic_of
from agents.runtime.records import outgoing
from planner.catalog.model import Catalog
from planner.control.planning import TICK_MS, PlannerLogic, PlanRequest, PlansOfTopic
from schemas import topics
from schemas.messages import Pin, Plan
from schemas.record import Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.control.records import VERSION, Place
from streams.kafka.transactions.barrier import Barrier
from streams.kafka.transactions.lease import Lease
from streams.settings import Settings

log = logging.getLogger(__name__)

TICK_S = TICK_MS / 1000
MAX_OBEYED: Final = 2**53  # versions from here on are no planner's
REMEMBER_MS: Final = 60_000  # between two records of what is remembered beside a plan that stays


class Plans(PlansOfTopic, Protocol):
    """The part of `PlanView` that the loop uses."""

    @property
    def is_disputed(self) -> bool:
        """Whether several plans of that version lie on the topic."""

    @property
    def answered_at(self) -> int:
        """Offset of the newest order that a plan answers."""

    @property
    def place(self) -> Place:
        """The position up to which the topic is read, which is stamped on a plan for readers that start with it."""

    def obey(self, plan: Plan) -> None:
        """Take over a plan, if it is newer and fits the catalog."""

    def catch_up(self, barrier: Barrier) -> None:
        """Take over what lies on the topic before this."""


class LeadersPlans:
    """The plan from which a leader continues: its own, once it has published or kept one, else the plan in force."""

    def __init__(self, followed: Plans, fleet: Fleet) -> None:
        self._followed, self._fleet = followed, fleet
        self.own: Plan | None = None  # with what is remembered by now
        self._answered_at = -1

    @property
    def plan(self) -> Plan | None:
        """Its own; until it has one, the plan in force."""
        return self.own or self._followed.plan

    @property
    def pin(self) -> Pin | None:
        """The operator's order."""
        return self._followed.pin

    @property
    def newest(self) -> int:
        """The highest version on the topic; where the topic holds no plan, the highest that a worker obeys.

        Roles obey no plan below the one that they have: a topic that was lost must not begin again with the first.
        """
        return self._followed.newest or self.obeyed

    @property
    def obeyed(self) -> int:
        """The highest version that a worker says it obeys; 0 if none does."""
        said = (beat.heartbeat.plan_version for beat in self._fleet.heartbeats.values())
        return max((version for version in said if version < MAX_OBEYED), default=0)

    @property
    def is_ordered(self) -> bool:
        """Whether an operator's order came after the newest plan."""
        return self._followed.place.pin_at > max(self._answered_at, self._followed.answered_at)

    @property
    def is_overtaken(self) -> bool:
        """Whether roles may obey another plan than its own."""
        return self.own is not None and (self.newest > self.own.version or self._followed.is_disputed)

    @property
    def place_of_own(self) -> Place:
        """The place that its own plan was made for: an order that came later is read anew from there."""
        read = self._followed.place
        answered = max(self._answered_at, self._followed.answered_at)
        return Place(read.pin_at, answered) if self.is_ordered else read

    def find(self, version: int) -> Plan | None:
        """Return an earlier plan by its version."""
        return self._followed.find(version)

    def on_published(self, plan: Plan, place: Place) -> None:
        """Take over a plan that it has written, as of a place."""
        self.own, self._answered_at = plan, place.pin_at
        self._followed.obey(plan)  # at once: a tick before the view has read it would write its version a second time


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
        """`logic`: makes the decisions; None for that of the settings."""
        self._followed, self._fleet = plans, fleet
        self._plans = LeadersPlans(plans, fleet)
        self._unwritten: Plan | None = None  # what is remembered beside the plan that stays
        self._remembered_ms = 0  # when that was written last
        self._leadership = Leadership(lease, settings.planner.leader_timeout_ms, now_ms)
        self._logic = logic or logic_of(settings, catalog)
        self._policies = PolicyThread(settings.planner.solver_timeout_s)
        self._report = DecisionReport()
        self._gauges = FleetGauges(settings.planner.worker_timeout_ms)
        self.sources = Sources(settings, catalog, fleet)
        self._was_leading = self._is_watching = False

    def not_ready(self) -> str:
        """Why it does not plan yet; "" if it plans or stands by. Any thread may ask."""
        return "" if self._is_watching else "reads recent prompts and results"

    def run(self, stopping: threading.Event) -> None:
        """Lead if possible: plan at once, then periodically and on triggers."""
        try:
            self.sources.open()
            while not stopping.is_set():
                self.step(time.monotonic_ns() // 1_000_000, now_ms())
                stopping.wait(TICK_S)
        finally:
            self._leadership.resign([_memory(self._unwritten, now_ms())] if self._unwritten is not None else [])
            self.sources.close()

    def step(self, monotonic_ms: int, now: int) -> None:
        """Watch; as the leader, plan if it is time."""
        self.sources.on_heartbeats()
        if self._leadership.leads(monotonic_ms):
            if not self._was_leading:  # what was planned before it led must be known: versions only rise
                assert self._leadership.barrier is not None
                self._followed.catch_up(self._leadership.barrier)
                self._plans, self._unwritten, self._remembered_ms = LeadersPlans(self._followed, self._fleet), None, now
                self._logic.begin()
            self._gauges.on_heartbeats(self._fleet.heartbeats, now)
            self.tick(now)
        if self._was_leading and not self._leadership.is_leading:
            self._report.on_leadership_lost()
        self._was_leading = self._leadership.is_leading
        self._gauges.leads(self._was_leading)
        self._is_watching = True

    def tick(self, now: int) -> None:
        """Plan if the period is over, or because of workers, an operator or the backlog."""
        if self._plans.is_overtaken:
            self._overrule(now)
        asked, needed = self.sources.asked(now), self.sources.needed()
        request = self._logic.due(now, self._fleet.heartbeats, self._plans, asked, self.sources.heard, needed)
        if request is not None:
            self._plan(request)

    def _plan(self, request: PlanRequest) -> None:
        place = self._followed.place  # an order that comes while the policy runs is not answered by its plan
        seen = self.sources.observation(request.now_ms, request.workers, self._plans.plan)
        self._gauges.on_observation(seen, self._plans.plan)
        decision = self._logic.decide(seen, self._plans, self._policies.run)
        self._report.on_decision(decision)
        self._report.on_expected(request, decision)
        if decision.plan is None:
            self._keep(decision.remembered, request.now_ms)
        elif self._publish(decision.plan, place, request.now_ms):
            self._report.on_published(decision)

    def _publish(self, plan: Plan, place: Place, now: int) -> bool:
        """Write a plan that was made for a place; return False if another planner leads."""
        obeyed = 0 if self._followed.newest else self._plans.obeyed
        if not self._leadership.write([_record(plan, place, now)]):
            return False
        if obeyed:
            log.warning(
                "the topic held no plan, though workers obey plan %d: earlier plans are lost, with operators' orders "
                "and what the policy remembered; plan %d is made without them",
                obeyed, plan.version,
            )  # fmt: skip
        self._plans.on_published(plan, place)
        self._unwritten, self._remembered_ms = None, now
        return True

    def _keep(self, remembered: Plan | None, now: int) -> None:
        """Keep the plan in force; sometimes write the policy's memory beside it, for the next planner."""
        if remembered is not None:
            self._unwritten = remembered
        plan = remembered or self._plans.plan
        if plan is not None and plan.version == self._plans.newest:
            self._plans.own = plan
        if self._unwritten is None or now - self._remembered_ms < REMEMBER_MS:
            return
        if self._leadership.write([_memory(self._unwritten, now)]):
            self._unwritten, self._remembered_ms = None, now

    def _overrule(self, now: int) -> None:
        """Publish its own plan again above a newer one on the topic that it has not written."""
        own, newest = self._plans.own, self._plans.newest
        assert own is not None
        plan = replace(own, version=newest + 1, created_ms=now)
        if self._publish(plan, self._plans.place_of_own, now):
            metrics.FOREIGN_PLANS.inc()
            log.warning(
                "plan %d repeats plan %d: no planner has written plan %d; only rights keep others from writing plans",
                plan.version, own.version, newest,
            )  # fmt: skip


def _record(plan: Plan, place: Place, now: int) -> Outgoing:
    return outgoing(
        topics.PLAN, plan, request_id=topics.PLAN_KEY, cause={}, role=ROLE, now_ms=now,
        facts={"policy": plan.policy, VERSION: plan.version, **place.facts()},
    )  # fmt: skip


def _memory(plan: Plan, now: int) -> Outgoing:
    return outgoing(topics.PLAN, plan, request_id=topics.MEMORY_KEY, cause={}, role=ROLE, now_ms=now)
