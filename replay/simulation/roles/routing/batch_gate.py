"""The batch gate of the simulation: requests of the tier `batch` wait until workers have nothing waiting.

When one may pass is decided in `planner.serving.admission.batch_gate`, as it is for `agents/classifier/batch_gate.py`.
"""

from collections import deque
from collections.abc import Callable

from planner.catalog.model import Catalog
from planner.serving.admission.admission import Way, way_of
from planner.serving.admission.batch_gate import POLL_MS, BatchGate, Occupation
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.load_view import SimulatedLoadView
from replay.simulation.roles.workers.heartbeats import Heartbeats, Subscription
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.messages import Status


class BatchClassifier:
    """Lets requests pass in the order in which they came; `on_passed` is called with each."""

    on_passed: Callable[[Job], None]

    def __init__(
        self,
        events: EventQueue,
        beats: Heartbeats,
        timing: Timing,
        times: CallTimes,
        catalog: Catalog,
        ledger: Ledger,
        gate: BatchGate,
    ) -> None:
        self._events = events
        self._beats = beats
        self._silent_ms = timing.silent_ms
        self._times = times
        self._variants = tuple(catalog.variants)
        self._ledger = ledger
        self._gate = gate
        self._view = SimulatedLoadView()  # of heartbeats alone
        self._subscription: Subscription | None = None
        self._waiting: deque[Job] = deque()
        ledger.tally.on_end.append(self._on_end)

    def take(self, job: Job) -> None:
        """Let it pass, or queue it behind those before it."""
        self._waiting.append(job)
        if len(self._waiting) == 1:
            self._serve()

    def _serve(self) -> None:
        while self._waiting and self._gate.may_pass(self._workers(), self._events.now_ms):
            job = self._waiting.popleft()
            if way_of(job.tier, job.deadline_ms, self._events.now_ms, has_waited=True) is Way.EXPIRE:
                self._ledger.end(Status.EXPIRED, job)
            else:
                self._gate.on_passed(job.number, self._events.now_ms)
                self.on_passed(job)
        if self._waiting:
            self._events.at(self._events.now_ms + POLL_MS, BatchClassifier._serve, self)

    def _workers(self) -> list[Occupation]:
        if self._subscription is None:
            self._subscription = self._beats.subscribe(self._view)
        self._subscription.catch_up()
        now_ms = self._events.now_ms
        return [
            Occupation(free_at_ms - now_ms, self._times[variant, 1, 0])
            for variant in self._variants
            for free_at_ms in self._view.pool(variant, now_ms, self._silent_ms).free
        ]

    def _on_end(self, job: Job) -> None:
        self._gate.on_end(job.number)
