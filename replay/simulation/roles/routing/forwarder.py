"""Forwards jobs that wait for idle workers, in the process of the router. `PullQueues` decides on them."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from planner.serving.decisions import Rejection
from planner.serving.dispatch.dispatch import RETRY_MS, Retry
from planner.serving.dispatch.waiting import Forward, Waiting
from planner.serving.ending.outcomes import late_status
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.sender import FleetLoads, Sender, WaitingTopics
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes

MAX_RETRIES_AT_ONCE = 10  # polls that are skipped while no worker is expected to be idle


class PooledWorker(NamedTuple):
    """A worker by its place in the pool of its variant, and the work before it."""

    place: int
    remaining_ms: float


class Forwarder(Sender):
    """Looks for an idle worker every RETRY_MS while a job waits. To write a job and to read it takes no time."""

    def __init__(
        self, events: EventQueue, plan_state: PlanState, fleet: Fleet, beats: Heartbeats, timing: Timing,
        times: CallTimes, ledger: Ledger, waiting: WaitingTopics, loads: FleetLoads,
    ) -> None:  # fmt: skip
        super().__init__(events, plan_state, fleet, beats, timing, times, waiting, loads)
        self._ledger, self._queues, self._due_ms = ledger, waiting.queues, math.inf
        waiting.on_job = self._on_job

    def _on_job(self, variant: str) -> None:
        self._forward([variant])

    def _poll(self) -> None:
        if self._events.now_ms >= self._due_ms:  # else an earlier poll was scheduled, and has forwarded what is due now
            self._due_ms = math.inf
            self._forward(self._queues.variants())

    def _forward(self, variants: Iterable[str]) -> None:
        plan, now_ms = self._plan_state.plan, self._events.now_ms
        for variant in variants:
            call = self._choice.call(plan, variant)
            for waiting, decision in self._queues.forward(variant, plan, now_ms, self._worker_of, call):
                match decision:
                    case Forward():
                        self._send(waiting.job, None if decision.worker is None else decision.worker.place)
                    case Rejection():
                        self._ledger.end(late_status(has_draft=waiting.job.has_draft), waiting.job)
        idle_in_ms = self._queues.idle_in_ms()
        if math.isfinite(idle_in_ms):
            due_ms = now_ms + RETRY_MS * max(1, min(math.ceil(idle_in_ms / RETRY_MS), MAX_RETRIES_AT_ONCE))
            if due_ms < self._due_ms:
                self._due_ms = due_ms
                self._events.at(due_ms, Forwarder._poll, self)

    def _worker_of(self, waiting: Waiting[Job]) -> PooledWorker | Retry | None:
        job = waiting.job
        place = self._choose(job)
        if place is None or isinstance(place, Retry):
            return place
        return PooledWorker(place, self._loads.pool(job.variant).load(place, self._events.now_ms).remaining_ms)
