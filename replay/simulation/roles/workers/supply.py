"""Workers that come and go as the plan asks: the simulated `pochade scale`, with its decisions.

A worker that is started anew is in the pool `start_ms` later; loading a variant comes on top, as for any worker.
"""

from planner.observation.workers import live_workers
from planner.scaling.supply import next_ids, orders
from replay.simulation.event_queue import EventQueue
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.setup import Setup

POLL_MS = 200.0  # between two polls of the plan, as live
PREFIX = "s"  # of the ids of workers that are started


class Supply:
    """The supervisor of all workers of a run."""

    def __init__(
        self, events: EventQueue, plan_state: PlanState, setup: Setup, fleet: Fleet, beats: Heartbeats
    ) -> None:  # fmt: skip
        self._events, self._plan_state, self._setup = events, plan_state, setup
        self._fleet, self._beats = fleet, beats
        self._starting: dict[str, float] = {}  # worker -> when it was ordered
        self.changes: list[tuple[float, int]] = []  # when the workers of variants became more or fewer, and how many
        self.started = self.ended = 0
        self._targets: int | None = None

    def begin(self) -> None:
        """Begin to poll the plan."""
        self._poll_plan()

    def as_table(self, lives: tuple[tuple[float, float], ...], ended_ms: float) -> dict[str, float]:
        """Return the figures of a run that ended then."""
        alive = sum(end - start for start, end in lives)
        ends = sorted([(start, 1) for start, _ in lives] + [(end, -1) for _, end in lives])
        most = now = 0
        for _, change in ends:
            now += change
            most = max(most, now)
        return {
            "workers_mean": round(alive / ended_ms, 3) if ended_ms else 0.0,
            "workers_most": float(most),
            "started": float(self.started),
            "drained": float(self.ended),
            "target_changes": float(len(self.changes)),
        }

    def _poll_plan(self) -> None:
        now_ms, plan = self._events.now_ms, self._plan_state.before
        if plan is not None and plan.scale is not None:
            total = sum(plan.scale.targets.values())
            if self._targets is not None and total != self._targets:
                self.changes.append((now_ms, total))
            self._targets = total
        live = live_workers(self._beats.heartbeats(), int(now_ms), int(self._setup.timing.silent_ms))
        own = [*self._fleet.ids(), *self._starting]
        found = orders(plan, own, {view.worker_id: view for view in live if view.worker_id in own})
        for worker_id in next_ids(found.start, own, PREFIX):
            self._starting[worker_id] = now_ms
            self.started += 1
            self._events.at(now_ms + self._setup.scale.start_ms, self._start, worker_id)
        for worker_id in found.end:
            self.ended += 1
            if self._starting.pop(worker_id, None) is None:
                self._fleet.end(worker_id)
        self._events.at(now_ms + POLL_MS, Supply._poll_plan, self)

    def _start(self, worker_id: str) -> None:
        ordered_ms = self._starting.get(worker_id)
        if ordered_ms is not None and self._events.now_ms - ordered_ms >= self._setup.scale.start_ms:
            del self._starting[worker_id]
            self._fleet.start(worker_id, ordered_ms)
