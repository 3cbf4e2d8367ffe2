"""The simulated ledger: a request ends by its first outcome, or EXPIRED where it was overdue before."""

from planner.serving.deadlines import is_overdue
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.results.run_metrics import RunMetrics
from replay.simulation.roles.control.plan_state import PlanState
from schemas.messages import Status


class Ledger:
    """Counts each request once.

    A simulated request is with one role at a time, so that its first outcome is the only one. One that is overdue has
    ended, and is counted when a role next asks for it or says how it ends: an event for each deadline would cost more
    than all that is simulated.
    """

    def __init__(self, events: EventQueue, plan_state: PlanState, tally: RunMetrics, grace_ms: float) -> None:
        """`grace_ms`: after a deadline, for the role that is about to end its request."""
        self.tally, self._events, self._plan_state, self._grace_ms = tally, events, plan_state, grace_ms

    def has_ended(self, job: Job) -> bool:
        """Whether the ledger has ended the request, as it is overdue."""
        return job.deadline_ms is not None and is_overdue(job.deadline_ms, self._events.now_ms, self._grace_ms)

    def complete(self, job: Job) -> None:
        """The job's image is the answer."""
        if self.has_ended(job):
            self.tally.ended(Status.EXPIRED, job)
        else:
            self.tally.completed(job, *job.generated, self._plan_state.judges(job.level), self._events.now_ms)

    def end(self, status: Status, job: Job, code: str = "") -> None:
        """The request ends without another image; COMPLETED: its draft is the answer. `code`: why it was rejected."""
        if self.has_ended(job):
            self.tally.ended(Status.EXPIRED, job)
        elif status is Status.COMPLETED:
            assert job.draft is not None, f"{job.request_id} has no draft"
            self.tally.completed(job, *job.draft, self._plan_state.judges(job.draft[0]), self._events.now_ms)
        else:
            self.tally.ended(status, job, code)
