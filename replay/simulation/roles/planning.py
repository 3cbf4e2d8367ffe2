"""The planner's loop of `agents/planner/` on the simulated clock: when it plans, and what becomes of it."""

import time
from dataclasses import replace

from planner.control.carry_over import survived
from planner.control.plans import check, memory_of, publish
from planner.control.proposal import Draft
from planner.control.propose import Rules, made
from planner.control.replan import GROWTH_MS, Signals, signals_of, stays, why_now
from planner.observation.observation import Observation, WorkerView, live_workers
from replay.simulation.agenda import Agenda
from replay.simulation.draws.delays import Delay
from replay.simulation.roles.board import Board
from replay.simulation.roles.fleet import Fleet
from replay.simulation.roles.pulse import Pulse
from replay.simulation.roles.senses import Senses
from replay.simulation.setup import Look, Setup
from schemas.messages import Plan

NEVER_MS = 2**53  # the period of a planner that is told when to look


class PlannerLoop:
    """Plans at once, then on a period and whenever a worker comes or goes or the backlog grows."""

    def __init__(self, agenda: Agenda, board: Board, setup: Setup, fleet: Fleet, pulse: Pulse, senses: Senses) -> None:
        self._agenda, self._board, self._setup = agenda, board, setup
        self._fleet, self._pulse, self._senses = fleet, pulse, senses
        self._rules = Rules(sheds=setup.sheds)
        self._look_ms = min(setup.timing.look_ms, setup.period_ms)
        self._period_ms = NEVER_MS if setup.looks else int(setup.period_ms)
        hops = setup.timing.hops
        self._takes = Delay(agenda, hops.plan, hops.slot_ms, setup.seed, "plan")  # solving, and writing the plan
        self._takes_ms: float | None = None  # the same at this look, where it is known
        self._before: Plan | None = None  # its last one, which is in force a moment later
        self._seen: Signals | None = None
        self._planned_ms = agenda.now_ms
        self.published: list[Plan] = []
        self.failures: list[str] = []  # of the policy, in words
        self.solver_s = 0.0  # wall time of the policy: never part of a report

    def start(self) -> None:
        """Plan now, and go on."""
        self.look()
        for look in self._setup.looks:
            self._agenda.at(look.at_ms, self._on_period, look)
        self._agenda.at(self._agenda.now_ms + self._look_ms, PlannerLoop._tick, self)

    def _on_period(self, look: Look) -> None:
        self._planned_ms, self._takes_ms = self._agenda.now_ms - NEVER_MS, look.takes_ms
        self.look()
        self._takes_ms = None

    def _tick(self) -> None:
        """Look, unless neither the period nor a backlog can call for a plan. Who comes or goes is looked at apart."""
        now_ms = self._agenda.now_ms
        if now_ms - self._planned_ms >= self._period_ms or self._pulse.backlog_ms() > GROWTH_MS:
            self.look()
        self._agenda.at(now_ms + self._look_ms, PlannerLoop._tick, self)

    def look(self) -> None:
        """Plan if it is time to."""
        now_ms, plan = self._agenda.now_ms, self._before
        silent_ms = int(self._setup.timing.silent_ms)
        workers = live_workers(self._pulse.heartbeats(), int(now_ms), silent_ms, plan.allocation if plan else {})
        signals = signals_of(workers)
        if why_now(self._seen, signals, int(now_ms - self._planned_ms), self._period_ms):
            self._seen, self._planned_ms = signals, now_ms
            self._plan(workers)

    def _plan(self, workers: tuple[WorkerView, ...]) -> None:
        seen = self._senses.observation(workers)
        began_s = time.perf_counter()
        plan = self._chosen(seen, self._before)
        self.solver_s += time.perf_counter() - began_s
        if plan is not None:
            self.published.append(slim(plan, self.published[-1] if self.published else plan))
            before, self._before = self._before, plan
            if before is None:
                self._obey(plan)
            elif self._takes_ms is not None:
                self._agenda.at(self._agenda.now_ms + self._takes_ms, self._obey, plan)
            else:
                self._takes.put_off(self._obey, plan)

    def _obey(self, plan: Plan) -> None:
        self._board.obey(plan)
        self._fleet.obey()

    def _chosen(self, seen: Observation, before: Plan | None) -> Plan | None:
        """The plan to obey next; None: the one in force stays. A policy that fails changes nothing."""
        setup = self._setup
        try:
            draft = self._drafted(seen, before)
        except Exception as error:  # whatever a policy or its solver raises; the first must not fail
            if before is None:
                raise
            self.failures.append(f"{type(error).__name__}: {error}")
            why = f"policy {setup.policy} made no plan: {self.failures[-1]}"
            return survived(before, why, seen, setup.catalog, self._rules)
        if before is not None and stays(draft, setup.policy, seen, before, setup.catalog):
            return None
        return publish(draft, before, setup.policy, seen.now_ms)

    def _drafted(self, seen: Observation, before: Plan | None) -> Draft:
        setup = self._setup
        memory = memory_of(before, setup.policy)
        draft = made(setup.policy, seen, setup.catalog, memory, setup.parameters, self._rules)
        if setup.dispatch:
            draft = replace(draft, dispatch=setup.dispatch)
        check(publish(draft, before, setup.policy, seen.now_ms), setup.catalog)
        return draft


def slim(plan: Plan, before: Plan) -> Plan:
    """What is told of a plan when a run is over; what is as in the one before is kept once, as a run has thousands."""
    return replace(
        plan,
        routes=(),
        memory="{}",
        allocation=before.allocation if plan.allocation == before.allocation else plan.allocation,
        batch=before.batch if plan.batch == before.batch else plan.batch,
        cascades=before.cascades if plan.cascades == before.cascades else plan.cascades,
    )
