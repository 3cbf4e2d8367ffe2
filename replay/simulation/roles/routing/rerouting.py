"""Orphaned jobs, those of a variant without workers, go to workers that serve. `OrphanRouting` decides on them."""

from planner.serving.decisions import Rejection
from planner.serving.routing.escalation import Keep
from planner.serving.routing.placement import Placement
from planner.serving.routing.reroute import POLL_MS, OrphanRouting
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.sender import FleetLoads, Sender, WaitingTopics
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes, ReuseShares
from schemas.messages import Status


class Rerouter(Sender):
    """Searches for orphaned jobs every POLL_MS, in the process of the router. A search takes no time."""

    def __init__(
        self, events: EventQueue, plan_state: PlanState, fleet: Fleet, beats: Heartbeats, timing: Timing,
        times: CallTimes, ledger: Ledger, logic: OrphanRouting, waiting: WaitingTopics, loads: FleetLoads,
    ) -> None:  # fmt: skip
        super().__init__(events, plan_state, fleet, beats, timing, times, waiting, loads)
        self._beats, self._ledger = beats, ledger
        self._logic, self._shares = logic, ReuseShares(times.catalog)
        events.repeat(events.now_ms + POLL_MS, Rerouter._search, self)

    def _search(self) -> None:
        now_ms = self._events.now_ms
        self._events.repeat(now_ms + POLL_MS, Rerouter._search, self)
        left = {name for name, group in self._beats.groups.items() if not group.members and group.waiting()}
        if not left:
            return
        for variant in self._logic.orphaned(self._plan_state.before, self._beats.heartbeats(), int(now_ms)):
            if variant in left:
                group = self._beats.groups[variant]
                group.leave_behind([job for job in group.take_orphans() if not self._rerouted(job)])

    def _rerouted(self, job: Job) -> bool:
        """Whether the job has left its queue: it has ended, or goes elsewhere."""
        now_ms = self._events.now_ms
        has_ended = self._ledger.has_ended(job)
        decision = self._logic.reroute(
            job, job.variant, self._plan_state.plan, self._loads.of(job.tier), now_ms, has_ended=has_ended,
            has_draft=job.has_draft, waited_ms=now_ms - job.arrived_ms,
        )  # fmt: skip
        match decision:
            case Placement():
                job.placed(decision, self._shares[decision.level], now_ms)
                job.become_new_record(job.attempts)
                self._place(job)
            case Rejection():
                self._ledger.end(decision.status, job, decision.code)
            case Keep():
                self._ledger.end(Status.COMPLETED, job)
            case _ if has_ended:
                self._ledger.end(Status.EXPIRED, job)
            case _:
                return False
        return True
