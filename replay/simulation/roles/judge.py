"""The discriminator: a picture is the answer, or its request goes on to the next level. The rules are planner's."""

from collections import deque
from collections.abc import Callable

from planner.catalog.parse import Catalog
from planner.serving.admission import can_meet
from planner.serving.escalation import as_score, keeps
from planner.serving.outcomes import is_overdue
from replay.simulation.agenda import Agenda
from replay.simulation.job import Job
from replay.simulation.results.tally import Tally
from replay.simulation.roles.fleet import Fleet
from replay.simulation.roles.heartbeats import Heartbeats
from replay.simulation.roles.plan_state import PlanState
from replay.simulation.roles.sender import Sender
from replay.simulation.roles.stores import ObjectStore
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.messages import Cascade, Status


class Judge(Sender):
    """Scores pictures after the discriminator's latency, by the plan in force when it began."""

    on_scored: Callable[[Job, str, float], None]

    def __init__(
        self, agenda: Agenda, board: PlanState, fleet: Fleet, pulse: Heartbeats, timing: Timing, times: CallTimes,
        catalog: Catalog, tally: Tally, store: ObjectStore,
    ) -> None:  # fmt: skip
        super().__init__(agenda, board, fleet, pulse, timing, times)
        self._tally, self._catalog, self._grace_ms = tally, catalog, timing.grace_ms
        self._store, self._waits = store, False  # for the store, and all that comes behind
        self._behind: deque[Job] = deque()

    def on_pictures(self, jobs: list[Job]) -> None:
        """Pictures of one call are there."""
        for job in jobs:
            if self._waits:
                self._behind.append(job)
            else:
                self._look_at(job)

    def _look_at(self, job: Job) -> None:
        cascade = self._board.cascade(job.level)
        if cascade is None or not job.judged or self._is_overdue(job):
            self._complete(job)
        elif self._store.is_there:
            self._score((job, cascade))
        else:
            self._waits = True
            self._store.reach(self._go_on, (job, cascade), _never)

    def _score(self, fetched: tuple[Job, Cascade]) -> None:
        job, _ = fetched
        scored_ms = self._agenda.now_ms + job.judged * self._board.judging_ms(job.level)
        self._agenda.at(scored_ms, self._judge, fetched)

    def _go_on(self, fetched: tuple[Job, Cascade]) -> None:
        """The picture that was waited for is there; then come those behind it."""
        self._score(fetched)
        self._waits = False
        while self._behind and not self._waits:
            self._look_at(self._behind.popleft())

    def _judge(self, scored: tuple[Job, Cascade]) -> None:
        job, cascade = scored
        score = as_score(job.draws.confidence(job.level, cascade.discriminator)[job.row])
        self.on_scored(job, cascade.discriminator, score)
        if keeps(cascade, score):
            self._complete(job)
            return
        variant, now_ms = cascade.next_level, self._agenda.now_ms
        how, step = job.on(self._catalog.level(variant), cascade.paint_over_step)
        painted_ms = self._lineup(variant).wait_ms(now_ms) + self._times.painting(variant, job.pictures, how, step)
        next_ms = painted_ms + job.judged * self._board.judging_ms(variant)
        if not can_meet(job.deadline_ms, now_ms + next_ms):
            self._complete(job)
            return
        self._tally.escalated += 1
        job.draft = job.level, job.step
        job.level, job.variant, job.step, job.attempt = cascade.next_level, variant, step, 1
        job.how = how
        self.take(job)

    def _serve(self, job: Job) -> bool:
        return self._place(job)

    def _complete(self, job: Job) -> None:
        if self._is_overdue(job):
            self._tally.ended(Status.EXPIRED, job)
        else:
            self._tally.completed(job, job.level, job.step, self._board.judges(job.level), self._agenda.now_ms)

    def _is_overdue(self, job: Job) -> bool:
        """Whether the ledger has ended it."""
        return is_overdue(job.deadline_ms, self._agenda.now_ms, self._grace_ms)


def _never(_fetched: tuple[Job, Cascade]) -> None:
    """It waits for as long as it takes."""
    raise AssertionError("the discriminator gave up waiting")
