"""Heartbeats: on a period, and at once after every window of work, but never closer than 50 ms."""

from planner.loads import LoadView
from planner.observation import Seen
from replay.simulation.agenda import Agenda
from replay.simulation.group import Group
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from replay.simulation.worker import Worker
from schemas.messages import Heartbeat, OwnedPartition

NOTHING: list[int] = []
LEAST_MS = 50.0  # between two beats. Source: agents/heartbeat.py


class Pulse:
    """Workers' beats as the senders' load views and the planner hear them: at once."""

    def __init__(self, agenda: Agenda, timing: Timing, times: CallTimes) -> None:
        self._agenda, self._period_ms, self._times = agenda, timing.beat_ms + LEAST_MS, times
        self._views: list[LoadView] = []
        self.groups: dict[str, Group] = {}
        self.last: dict[str, Worker] = {}  # by id, the process that was heard last

    def tell(self, view: LoadView) -> None:
        """A view that begins to listen knows the last beats."""
        if view not in self._views:
            self._views.append(view)
            for worker in self.last.values():
                self._tell(view, worker, worker.beaten_ms)

    def start(self, worker: Worker) -> None:
        """Beat from now on."""
        self._beat(worker)
        self._agenda.at(worker.beaten_ms + self._period_ms, self._on_period, worker)

    def now(self, worker: Worker) -> None:
        """Something changed that others should know before the next beat."""
        if self._agenda.now_ms - worker.beaten_ms >= LEAST_MS:
            self._beat(worker)
        elif not worker.beat_is_due:
            worker.beat_is_due = True
            self._agenda.at(worker.beaten_ms + LEAST_MS, self._on_change, worker)

    def _on_change(self, worker: Worker) -> None:
        if worker.is_up and worker.beat_is_due:
            self._beat(worker)

    def _on_period(self, worker: Worker) -> None:
        if not worker.is_up:
            return
        if self._agenda.now_ms >= worker.beaten_ms + self._period_ms:  # the sum that was entered: no rounding apart
            self._beat(worker)
        self._agenda.at(worker.beaten_ms + self._period_ms, self._on_period, worker)

    def _beat(self, worker: Worker) -> None:
        now_ms, variant, member = self._agenda.now_ms, worker.variant, worker.member
        worker.beaten_ms, worker.beat_is_due = now_ms, False
        worker.heard_variant, worker.heard_state, worker.heard_remaining_ms = variant, worker.state, 0.0
        self.last[worker.id] = worker
        if member is not None and member.partitions:
            worker.heard_remaining_ms = worker.remaining_ms(self._times[variant, 1, 0], now_ms)
        for view in self._views:
            self._tell(view, worker, now_ms)

    def _tell(self, view: LoadView, worker: Worker, at_ms: float) -> None:
        variant, state, remaining_ms = worker.heard_variant, worker.heard_state, worker.heard_remaining_ms
        if worker.member is None:
            view.hear(worker.id, variant, state, NOTHING, NOTHING, remaining_ms, at_ms)
        else:
            ends = self.groups[variant].ends
            view.hear(worker.id, variant, state, worker.member.partitions, ends, remaining_ms, at_ms)

    def backlog_ms(self) -> float:
        """Work that waits a worker, as was heard last."""
        return sum([worker.heard_remaining_ms for worker in self.last.values()]) / max(1, len(self.last))

    def heartbeats(self) -> dict[str, Seen]:
        """The last one of each worker, as the planner and other workers have read it."""
        return {worker_id: _seen(worker) for worker_id, worker in self.last.items()}


def _seen(worker: Worker) -> Seen:
    at_ms = int(worker.beaten_ms)
    owned = (OwnedPartition(partition=0, end_offset=0, remaining_ms=round(worker.heard_remaining_ms)),)
    heartbeat = Heartbeat(
        worker_id=worker.id, state=worker.heard_state, variant=worker.heard_variant, plan_version=0, sent_ms=at_ms,
        partitions=owned,
    )  # fmt: skip
    return Seen(heartbeat, at_ms)
