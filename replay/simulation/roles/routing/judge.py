"""The simulated discriminator; `planner.serving.routing.escalation` decides, as in `agents/discriminator`."""

from collections import deque
from collections.abc import Callable

from planner.catalog.model import Catalog
from planner.serving.routing.escalation import Escalate, EscalationLogic, Keep, Score
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.sender import Sender, WaitingTopics
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.roles.workers.stores import ObjectStore
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.messages import Status

Fetched = tuple[Job, Score]
"""A job whose image was fetched, and the score that is asked of it."""


class Judge(Sender):
    """Scores images after the discriminator's latency, by the plan in force when it began."""

    on_scored: Callable[[Job, float], None]

    def __init__(
        self, events: EventQueue, plan_state: PlanState, fleet: Fleet, beats: Heartbeats, timing: Timing,
        times: CallTimes, catalog: Catalog, ledger: Ledger, store: ObjectStore, logic: EscalationLogic,
        waiting: WaitingTopics,
    ) -> None:  # fmt: skip
        super().__init__(events, plan_state, fleet, beats, timing, times, waiting)
        self._logic = logic
        self._ledger, self._variants = ledger, catalog.variants
        self._store, self._waits = store, False  # for the store, and all that comes behind
        self._behind: deque[Job] = deque()

    def on_images(self, jobs: list[Job]) -> None:
        """Images of one call are there."""
        for job in jobs:
            if self._waits:
                self._behind.append(job)
            else:
                self._examine(job)

    def _examine(self, job: Job) -> None:
        if self._ledger.has_ended(job):
            self._ledger.end(Status.EXPIRED, job)
            return
        asked = self._logic.examine(self._plan_state.plan, job.level, job)
        if isinstance(asked, Keep):
            self._ledger.complete(job)
        elif self._store.is_there:
            self._score((job, asked))
        else:
            self._waits = True
            self._store.reach(self._go_on, (job, asked))

    def _score(self, fetched: Fetched) -> None:
        job, asked = fetched
        self._events.at(self._events.now_ms + job.images * asked.latency_ms, self._judge, fetched)

    def _go_on(self, fetched: Fetched) -> None:
        """The image that was waited for is there; then come those behind it."""
        self._score(fetched)
        self._waits = False
        while self._behind and not self._waits:
            self._examine(self._behind.popleft())

    def _judge(self, scored: Fetched) -> None:
        job, asked = scored
        confidence = job.draws.confidence(job.variant, asked.cascade.discriminator)[job.row]
        self.on_scored(job, confidence)
        sizes = job.sizes(self._variants[job.variant])
        decision = self._logic.decide(asked, job, sizes, confidence, self._loads, self._events.now_ms)
        if isinstance(decision, Escalate):
            self._escalate(job, asked, decision)
        else:
            job.is_rejected = decision.is_rejected
            self._ledger.complete(job)

    def _escalate(self, job: Job, asked: Score, decision: Escalate) -> None:
        self._ledger.tally.escalated += 1
        job.escalate(decision.next_level, decision.how.variant, self._events.now_ms)
        job.become_new_record(attempt=1)
        variant = self._variants[job.variant]
        job.how, job.step = job.as_resolved(variant, decision.how.options, asked.cascade.refine_from_step)
        self._place(job)
