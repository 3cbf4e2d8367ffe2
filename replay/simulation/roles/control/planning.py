"""The planner on the simulated clock: `PlannerLogic` decides, as it does live; here is when it is asked."""

import time
from collections.abc import Mapping
from dataclasses import replace

from planner.control.planning import Order, PlannerLogic, PlanRequest
from planner.control.propose import Rules
from planner.control.validity import check
from planner.observation.forecast import horizon_of
from planner.observation.workers import ReceivedHeartbeat
from planner.policies import named
from replay.simulation.draws.delays import Delay
from replay.simulation.event_queue import EventQueue
from replay.simulation.roles.control.observation_feed import ObservationFeed
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.setup import PlanningTime, Setup
from schemas.messages import Pin, Plan

NEVER_MS = 2**53  # the period of a planner that is given the times to look at


def logic_of(setup: Setup) -> PlannerLogic:
    """The logic of the planner of a simulated deployment."""
    return PlannerLogic(
        setup.catalog,
        named,
        Order(setup.policy, setup.parameters),
        period_ms=NEVER_MS if setup.looks else int(setup.period_ms),
        silent_ms=int(setup.timing.silent_ms),
        rules=Rules(
            sheds=setup.sheds,
            dispatch=setup.dispatch,
            forecast=setup.forecast,
            horizon_s=horizon_of(setup.period_ms),
            hysteresis=setup.hysteresis,
            quality_at_least=setup.quality_at_least,
            scale=setup.scale,
        ),
        check=check,
    )


class OwnPlans:
    """The plans that a simulated planner continues from: its last plan, in force a moment later, and no orders."""

    pin: Pin | None = None
    is_ordered = False

    def __init__(self) -> None:
        self.plan: Plan | None = None

    @property
    def newest(self) -> int:
        """The version of its last plan; 0: there is none."""
        return self.plan.version if self.plan else 0

    def find(self, _version: int) -> Plan | None:
        """Return None, as without orders no earlier plan is needed."""
        return None


class PlannerLoop:
    """Plans at once, then on a period and whenever a worker comes or goes or the backlog grows."""

    def __init__(
        self, events: EventQueue, plan_state: PlanState, setup: Setup, fleet: Fleet, beats: Heartbeats,
        feed: ObservationFeed, logic: PlannerLogic | None = None,
    ) -> None:  # fmt: skip
        """`logic`: makes the decisions; None for that of the setup."""
        self._events, self._plan_state, self._setup = events, plan_state, setup
        self._fleet, self._beats, self._feed = fleet, beats, feed
        self._logic, self._plans = logic or logic_of(setup), OwnPlans()
        self._is_scaled = setup.is_scaled  # workers come whenever they do
        self._look_ms = min(setup.timing.look_ms, setup.period_ms)
        hops = setup.timing.hops
        self._takes = Delay(events, hops.plan, hops.slot_ms, setup.seed, "plan")  # solving, and writing the plan
        self._takes_ms: float | None = None  # the same at this look, where it is known
        self.published: list[Plan] = []
        self.failures: list[str] = []  # of the policy, in words
        self.solver_s = 0.0  # wall time of the policy: never part of a report

    def start(self) -> None:
        """Plan now, and go on."""
        self.plan_if_due()
        for look in self._setup.looks:
            self._events.at(look.at_ms, self._on_period, look)
        self._events.repeat(self._events.now_ms + self._look_ms, PlannerLoop._tick, self)

    def _on_period(self, look: PlanningTime) -> None:
        self._takes_ms = look.takes_ms
        self._logic.end_period()
        self.plan_if_due()
        self._takes_ms = None

    def _tick(self) -> None:
        """Look, unless neither the period, a backlog nor a need can call for a plan. Who comes or goes is looked at
        apart."""
        now_ms = self._events.now_ms
        self._feed.sample_queues()
        if (
            self._setup.is_scaled
            or self._feed.needed()
            or self._logic.may_be_due(now_ms, self._beats.live_backlog_ms(self._setup.timing.silent_ms))
        ):
            self.plan_if_due()
        self._events.repeat(now_ms + self._look_ms, PlannerLoop._tick, self)

    def rests(self) -> bool:
        """Whether no plan is due until a request comes, or a worker comes or goes."""
        return not self._setup.looks and self._logic.rests(self._feed.ended_or_arrived())

    def skip(self, ms: float) -> None:
        """Let a time pass in which it rests."""
        self._logic.skip(ms)

    def plan_if_due(self) -> None:
        """Plan if it is time to."""
        self._feed.sample_queues()
        heartbeats = self._beats.heartbeats()
        request = self._logic.due(
            self._events.now_ms, heartbeats, self._plans, self._feed.asked(), self._feed.ended_or_arrived(),
            self._feed.needed(),
        )  # fmt: skip
        if request is not None:
            self._plan(request, heartbeats)

    def _plan(self, request: PlanRequest, heartbeats: Mapping[str, ReceivedHeartbeat]) -> None:
        seen = self._feed.observation(request, heartbeats, self._plans.plan)
        began_s = time.perf_counter()
        decision = self._logic.decide(seen, self._plans)
        self.solver_s += time.perf_counter() - began_s
        if decision.error is not None:
            if self._plans.plan is None:  # a run without any plan says nothing
                raise decision.error
            self.failures.append(decision.reason)
        if decision.plan is not None:
            self._publish(decision.plan)
        elif decision.remembered is not None:
            self._plans.plan = decision.remembered

    def _publish(self, plan: Plan) -> None:
        self.published.append(slim(plan, self.published[-1] if self.published else plan))
        before, self._plans.plan = self._plans.plan, plan
        if before is None:
            self._obey(plan)
        elif self._takes_ms is not None:
            self._events.at(self._events.now_ms + self._takes_ms, self._obey, plan)
        else:
            self._takes.put_off(self._obey, plan)

    def _obey(self, plan: Plan) -> None:
        self._plan_state.obey(plan)
        self._fleet.obey()


def slim(plan: Plan, before: Plan) -> Plan:
    """Reduce a plan to what reports need; parts equal to the plan before are shared, as a run has thousands."""
    return replace(
        plan,
        routes=(),
        memory="{}",
        residency=None,
        scale=None if plan.scale is None else replace(plan.scale, memory="{}"),
        allocation=before.allocation if plan.allocation == before.allocation else plan.allocation,
        batch=before.batch if plan.batch == before.batch else plan.batch,
        cascades=before.cascades if plan.cascades == before.cascades else plan.cascades,
    )
