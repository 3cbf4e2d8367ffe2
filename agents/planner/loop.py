"""The planner: watches prompts, results and workers, runs the active policy, publishes a Plan when it decides anew.

Of several planners one leads (`leadership.py`); the others watch, and plan from what they have seen when they lead.
"""

import logging
import threading
import time
from typing import Protocol

from agents.planner import ROLE
from agents.planner.leadership import Leadership
from agents.planner.observe import Fleet, Sources
from agents.planner.propose import Choice, Order, Solving, rules_of
from agents.runtime.records import outgoing
from planner.catalog.parse import Catalog
from planner.control.replan import Signals, signals_of, why_now
from planner.observation.observation import WorkerView, live_workers, steady_ms
from planner.policies import DEFAULT
from schemas import topics
from schemas.messages import Pin, Plan
from schemas.record import Outgoing
from streams.clock import now_ms
from streams.control.records import Place
from streams.kafka.barrier import Barrier
from streams.kafka.lease import Lease
from streams.settings import Settings

log = logging.getLogger(__name__)

TICK_S = 0.2
MOST_BACK_MS = 60_000  # that a clock may jump back and be waited for; beyond it time begins anew


class Plans(Protocol):
    """What `PlanView` offers here."""

    plan: Plan | None
    pin: Pin | None

    @property
    def place(self) -> Place:
        """How far the topic is read, for who begins with a plan written now."""
        ...

    @property
    def newest(self) -> int:
        """The highest version met, obeyed or not."""
        ...

    def obey(self, plan: Plan) -> None:
        """Take over a plan, if it is newer and fits the catalog."""
        ...

    def catch_up(self, barrier: Barrier) -> None:
        """Take over what lies on the topic before this."""
        ...

    def find(self, version: int) -> Plan | None:
        """An earlier plan."""
        ...


class PlannerLoop:
    """One planner. `run` blocks until `stopping` is set."""

    def __init__(self, settings: Settings, catalog: Catalog, lease: Lease, plans: Plans, fleet: Fleet) -> None:
        self._planner = settings.planner
        self._plans = plans
        self._fleet = fleet
        self._leadership = Leadership(lease, settings.planner.leader_silent_ms, now_ms)
        self._choice = Choice(catalog, Solving(settings.planner.solve_limit_s), rules_of(settings))
        self.sources = Sources(settings, catalog, fleet)
        self._seen: Signals | None = None
        self._planned_ms = self._now_ms = 0
        self._was_leading = self._is_watching = False
        self._back_to: Plan | None = None

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
        self.sources.queues.look(self._fleet.heartbeats)
        if self._leadership.leads(monotonic_ms):
            if not self._was_leading:  # what was planned before it led must be known: versions only rise
                assert self._leadership.barrier is not None
                self._plans.catch_up(self._leadership.barrier)
                self._seen = None
            self.tick(now)
        self._was_leading = self._leadership.is_leading
        self._is_watching = True

    def tick(self, now: int) -> None:
        """Plan anew when the period is over, or workers, an operator or the backlog call for it."""
        now = self._now_ms = steady_ms(now, self._now_ms, MOST_BACK_MS)
        allocation = self._plans.plan.allocation if self._plans.plan else {}
        workers = live_workers(self._fleet.heartbeats, now, self._planner.worker_silent_ms, allocation)
        signals = signals_of(workers, _told(self._plans.pin))
        since_ms = now - self._planned_ms
        why = why_now(
            self._seen, signals, since_ms if since_ms >= 0 else self._planner.period_ms, self._planner.period_ms
        )
        if why:
            self._seen, self._planned_ms = signals, now
            self._plan(workers, now, why)

    def _plan(self, workers: tuple[WorkerView, ...], now: int, why: str) -> None:
        before = self._plans.plan
        seen = self.sources.observation(now, workers, before)
        plan = self._choice.plan(self._order(), seen, before, self._plans.newest)
        if plan is not None and self._leadership.write([_record(plan, self._plans.place, now)]):
            self._plans.obey(plan)  # at once: a tick before the view has read it would write its version a second time
            log.info("plan %d by %s, because %s: %s", plan.version, plan.policy, why, plan.reason)

    def _order(self) -> Order:
        """The operator's, else the configured one."""
        pin = self._plans.pin
        if pin is None or not pin.plan_version:
            self._back_to = None
        elif self._back_to is None or self._back_to.version != pin.plan_version:
            self._back_to = self._plans.find(pin.plan_version)
        if self._back_to is not None:
            return Order(self._back_to.policy, back_to=self._back_to)
        if pin is not None and pin.policy:
            return Order(pin.policy, pin.parameters)
        return Order(self._planner.policy or DEFAULT, self._planner.parameters)


def _told(pin: Pin | None) -> tuple[str, ...]:
    """What tells one order from another; the same one given again is a new one."""
    return (pin.policy, str(pin.parameters), str(pin.plan_version), str(pin.created_ms)) if pin else ()


def _record(plan: Plan, place: Place, now: int) -> Outgoing:
    return outgoing(
        topics.PLAN, plan, request_id=topics.PLAN_KEY, cause={}, role=ROLE, now_ms=now,
        facts={"policy": plan.policy, "version": plan.version, **place.facts()},
    )  # fmt: skip
