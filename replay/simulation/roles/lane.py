"""The batch lane: requests of the tier `batch` wait until workers have nothing waiting, as in `agents/classifier`."""

from collections import deque
from collections.abc import Callable

from planner.catalog.parse import Catalog
from planner.serving.lanes import Occupation, batch_may_pass
from planner.serving.worker_loads import LoadView
from replay.simulation.agenda import Agenda
from replay.simulation.job import Job
from replay.simulation.results.tally import Tally
from replay.simulation.roles.heartbeats import Heartbeats, Subscription
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.messages import Status

LOOK_MS = 50.0  # between two looks at the workers. Source: agents/classifier/batch_lane.py


class BatchLane:
    """In the order in which they came; `on_passed` is told of each whose turn it is."""

    on_passed: Callable[[Job], None]

    def __init__(
        self, agenda: Agenda, pulse: Heartbeats, timing: Timing, times: CallTimes, catalog: Catalog, tally: Tally
    ) -> None:
        self._agenda, self._pulse = agenda, pulse
        self._silent_ms = timing.silent_ms
        self._times, self._variants, self._tally = times, tuple(catalog.variants), tally
        self._view = LoadView()  # of heartbeats alone
        self._ear: Subscription | None = None
        self._held: deque[Job] = deque()
        self._in_flight: dict[int, float] = {}  # number -> when it passed
        tally.on_end.append(self._on_end)

    def take(self, job: Job) -> None:
        """Let it pass, or hold it behind those before it."""
        self._held.append(job)
        if len(self._held) == 1:
            self._serve()

    def _serve(self) -> None:
        while self._held and self._is_open():
            job = self._held.popleft()
            if job.deadline_ms is not None and job.deadline_ms <= self._agenda.now_ms:
                self._tally.ended(Status.EXPIRED, job)
            else:
                self._in_flight[job.number] = self._agenda.now_ms
                self.on_passed(job)
        if self._held:
            self._agenda.at(self._agenda.now_ms + LOOK_MS, BatchLane._serve, self)

    def _is_open(self) -> bool:
        if self._ear is None:
            self._ear = self._pulse.subscribe(self._view)
        self._ear.catch_up()
        now_ms = self._agenda.now_ms
        workers = [
            Occupation(free_at_ms - now_ms, self._times[variant, 1, 0])
            for variant in self._variants
            for free_at_ms in self._view.lineup(variant, now_ms, self._silent_ms).free_at_ms
        ]
        return batch_may_pass(workers, [now_ms - passed for passed in self._in_flight.values()])

    def _on_end(self, job: Job) -> None:
        self._in_flight.pop(job.number, None)
