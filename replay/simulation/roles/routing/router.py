"""The router: a classified request becomes a job, or ends. `planner.serving.routing.routing.RoutingLogic` decides."""

from planner.serving.decisions import Rejection
from planner.serving.routing.placement import Placement
from planner.serving.routing.routing import RoutingLogic
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.sender import FleetLoads, Sender, WaitingTopics
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes, ReuseShares


class Router(Sender):
    """The simulated router: `RoutingLogic` decides on each request, and this class carries the decision out."""

    def __init__(
        self, events: EventQueue, plan_state: PlanState, fleet: Fleet, beats: Heartbeats, timing: Timing,
        times: CallTimes, ledger: Ledger, logic: RoutingLogic, waiting: WaitingTopics,
        loads: FleetLoads | None = None,
    ) -> None:  # fmt: skip
        super().__init__(events, plan_state, fleet, beats, timing, times, waiting, loads)
        self._ledger, self._logic, self._shares = ledger, logic, ReuseShares(times.catalog)

    def take(self, job: Job) -> None:
        """Serve a record."""
        if self._decide(job):
            self._place(job)

    def _decide(self, job: Job) -> bool:
        """Decide on the level of a request; False: it has ended instead."""
        decision = self._logic.route(job, self._plan_state.plan, self._loads.of(job.tier), self._events.now_ms)
        job.is_under_way = self._plan_state.is_under_way
        if isinstance(decision, Placement):
            job.placed(decision, self._shares[decision.level], self._events.now_ms)
            return True
        if isinstance(decision, Rejection):
            self._ledger.end(decision.status, job, decision.code)
        return False
