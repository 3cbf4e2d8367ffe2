"""Who sends jobs to workers: what router and discriminator have in common, as in `agents/router/dispatcher.py`."""

from abc import abstractmethod
from collections import Counter, deque

from planner.serving.dispatch import pick
from planner.serving.worker import ahead_ms
from planner.serving.worker_loads import Lineup, LoadView
from replay.simulation.agenda import Agenda
from replay.simulation.job import Job
from replay.simulation.roles.fleet import Fleet
from replay.simulation.roles.heartbeats import Heartbeats, Subscription
from replay.simulation.roles.plan_state import PlanState
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.ids import draw

PULL_WAIT_MS = 5.0  # how often a job that waits for an idle worker looks again. Source: agents/router/dispatcher.py
LOOK_MS = 50.0  # at least as often, though nobody is expected to be free: a heartbeat may say otherwise
NO_OWNER = "no-owner"


class Sender:
    """Serves one record after the other, with a view of the loads of its own: heartbeats and its own sends."""

    def __init__(
        self, agenda: Agenda, board: PlanState, fleet: Fleet, pulse: Heartbeats, timing: Timing, times: CallTimes
    ) -> None:
        self._agenda, self._board, self._fleet = agenda, board, fleet
        self._view, self._silent_ms, self._times = LoadView(), timing.silent_ms, times
        self._pulse = pulse
        self._ear: Subscription | None = None  # for heartbeats; None: not listening yet
        self._held: deque[Job] = deque()  # behind one that waits for an idle worker
        self._sent_before: Counter[str] = Counter()

    def take(self, job: Job) -> None:
        """Serve a record, or keep it until those before it are served."""
        if self._held or not self._serve(job):
            self._hold(job)

    @abstractmethod
    def _serve(self, job: Job) -> bool:
        """Whether it is served; False: it waits for an idle worker, and everything behind it."""

    def _hold(self, job: Job) -> None:
        self._held.append(job)
        if len(self._held) == 1:
            self._agenda.at(self._agenda.now_ms + PULL_WAIT_MS, Sender._retry, self)

    def _retry(self) -> None:
        while self._held and self._serve(self._held[0]):
            self._held.popleft()
        if self._held:
            now_ms = self._agenda.now_ms
            wait_ms = self._lineup(self._held[0].variant).wait_ms(now_ms)
            self._agenda.at(now_ms + max(PULL_WAIT_MS, min(wait_ms, LOOK_MS)), Sender._retry, self)

    def _lineup(self, variant: str) -> Lineup:
        if self._ear is None:  # only now: a sender that nothing is asked of need not hear what it would
            self._ear = self._pulse.subscribe(self._view)
        self._ear.listen(variant)
        return self._view.lineup(variant, self._agenda.now_ms, self._silent_ms)

    def _place(self, job: Job) -> bool:
        """Send it to a worker of its variant, or where one may come; False: none is idle, and the plan says to wait."""
        variant, now_ms, plan = job.variant, self._agenda.now_ms, self._board.plan
        lineup = self._lineup(variant)
        sent_before = self._sent_before[variant]
        ahead = ahead_ms(self._times[variant, 1, 0], plan.batch.get(variant, 1))
        place = pick(plan.dispatch, lineup.free_at_ms, now_ms, job.id, sent_before, ahead)
        group = self._fleet.group(variant)
        if place is None:
            if lineup.workers:
                return False
            partition = int(draw(job.id, NO_OWNER) * len(group.ends))
        else:
            partition = lineup.partition(place)
            run_ms = self._times.of_job(job)
            self._view.on_sent(variant, partition, group.ends[partition], run_ms, now_ms)
            self._sent_before[variant] = sent_before + 1
        self._fleet.send(variant, partition, job)
        return True
