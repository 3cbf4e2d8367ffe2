"""What waits for a variant without workers goes to those who serve, as `agents/router/reroute.py` sees to."""

from planner.observation.observation import live_workers
from planner.serving.outcomes import is_overdue
from planner.serving.reroute import stranded
from replay.simulation.agenda import Agenda
from replay.simulation.job import Job
from replay.simulation.results.tally import Tally
from replay.simulation.roles.heartbeats import Heartbeats
from replay.simulation.roles.plan_state import PlanState
from replay.simulation.roles.router import Router
from replay.simulation.setup import Timing
from schemas.messages import Status

LOOK_MS = 2000.0  # between two looks. Source: agents/router/reroute.py


class Sweeper:
    """Looks from its making on. A sweep takes no time."""

    def __init__(
        self, agenda: Agenda, board: PlanState, pulse: Heartbeats, timing: Timing, router: Router, tally: Tally
    ) -> None:
        self._agenda, self._board, self._pulse, self._timing = agenda, board, pulse, timing
        self._router, self._tally = router, tally
        agenda.at(agenda.now_ms + LOOK_MS, Sweeper._look, self)

    def _look(self) -> None:
        now_ms, plan = self._agenda.now_ms, self._board.before
        self._agenda.at(now_ms + LOOK_MS, Sweeper._look, self)
        held = [name for name, group in self._pulse.groups.items() if not group.members and group.waiting()]
        if held and plan is not None:
            seen = self._pulse.heartbeats()
            live = live_workers(seen, int(now_ms), int(self._timing.silent_ms), plan.allocation)
            for variant in stranded(held, plan, live):
                group = self._pulse.groups[variant]
                group.leave_behind([job for job in group.take_orphans() if not self._answered(job)])

    def _answered(self, job: Job) -> bool:
        """Whether it lies there no more: it has ended, or goes elsewhere."""
        now_ms = self._agenda.now_ms
        if is_overdue(job.deadline_ms, now_ms, self._timing.grace_ms):
            self._tally.ended(Status.EXPIRED, job)
        elif job.draft is not None:
            self._tally.completed(job, *job.draft, self._board.judges(job.draft[0]), now_ms)
        else:
            return self._router.reroute(job)
        return True
