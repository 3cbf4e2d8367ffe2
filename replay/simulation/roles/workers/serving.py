"""Generating: windows of jobs, batches, calls; as `role.py` and `generate.py` of `agents/worker` do it."""

import math
from collections import deque
from collections.abc import Callable

from planner.catalog.model import Catalog
from planner.catalog.options import ResolvedOptions
from planner.serving.backoff import DRAFT_S
from planner.serving.dispatch.worker import (
    group_by_call,
    has_killed_enough,
    idle_state,
    jobs_at_once,
    waiting_state,
    working_state,
)
from planner.serving.ending.outcomes import is_overdue
from planner.serving.routing.refuge import RefugeLogic
from replay.simulation.draws.delays import Delay
from replay.simulation.draws.run_times import NO_VARIATION, RunTimes
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.results.run_metrics import RunMetrics
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.too_late import end_too_late
from replay.simulation.roles.workers.components import Components
from replay.simulation.roles.workers.lookups import Lookups
from replay.simulation.roles.workers.stores import ObjectStore
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.messages import Status


class Serving:
    """Takes what lies before a worker and generates it; `on_images`, `on_refuge` and `on_window_end` are called."""

    on_images: Callable[[list[Job]], None]
    on_refuge: Callable[[Job], None]  # a job that goes on to a cheaper level
    on_generated: Callable[[list[Job], float], None]  # the jobs of a call, and the ms that it took
    on_window_end: Callable[[Worker], None]

    def __init__(
        self, events: EventQueue, plan_state: PlanState, catalog: Catalog, timing: Timing, times: CallTimes,
        tally: RunMetrics, store: ObjectStore, lookups: Lookups, seed: int = 0,
        run_times: RunTimes | None = None, slo_ms: float = 0.0,
    ) -> None:  # fmt: skip
        self._events, self._plan_state, self._catalog, self._timing = events, plan_state, catalog, timing
        self._times, self._tally, self._store, self.lookups = times, tally, store, lookups
        self._refuge = RefugeLogic(catalog, slo_ms)
        self.components: Components | None = None  # None: what jobs need is always there
        self.true_times = times  # that calls take; `times` are those that workers expect
        self._run_times = run_times or RunTimes(NO_VARIATION, seed)
        hops = timing.hops
        self._late = Delay(events, hops.paint, hops.slot_ms, seed, "paint")
        self._late_of = {name: Delay(events, own, hops.slot_ms, seed, "paint") for name, own in hops.paint_of.items()}
        self._rest = Delay(events, hops.rest, hops.slot_ms, seed, "rest")

    def take_window(self, worker: Worker, *, is_leaving: bool) -> None:
        """Begin a window of work, if any waits that is still wanted."""
        assert worker.member is not None
        assert worker.logic is not None
        assert not worker.call, f"{worker.id} is generating"
        self._refuge.obey(self._plan_state.plan)
        while worker.member.waiting:
            self._take(worker)
            worker.since_ms, worker.state = self._events.now_ms, working_state(is_leaving)
            if self._begins_batch(worker):
                return
            worker.logic.end()
        worker.state = waiting_state(worker.state, is_leaving)
        if self.components is not None:
            self.components.tend(worker)

    def _take(self, worker: Worker) -> None:
        """A window of jobs becomes batches."""
        assert worker.logic is not None
        assert worker.member is not None
        batch, member = self._plan_state.plan.batch.get(worker.variant, 1), worker.member
        jobs = len(member.waiting)
        if jobs > 1:
            jobs = min(jobs_at_once(worker.logic.max_jobs(batch), are_suspects=member.suspects > 0), jobs)
        worker.window, worker.is_absolved = member.take(jobs), False
        worker.batches.extend(worker.logic.begin(worker.window, batch).batches)

    def _begins_batch(self, worker: Worker) -> bool:
        """Whether anything of the window was left to generate."""
        while worker.batches:
            batch = worker.batches.popleft()
            if not self._store.is_there and any(job.draft is not None and job.step for job in batch):
                self._fetch_drafts(worker, batch)
                return True
            alive = [job for job in batch if self._is_alive(job)]
            if self.lookups.is_used and alive and self.lookups.find(worker, alive, self._on_looked_up):
                worker.call = alive  # it waits: only then it is known how long each takes
                return True
            wanted = [job for job in alive if self._is_in_time(job, worker)]
            if wanted:
                self._begin_calls(worker, wanted)
                return True
        return False

    def _begin_calls(self, worker: Worker, wanted: list[Job]) -> None:
        worker.calls = deque(group_by_call(wanted, _how) if len(wanted) > 1 else (wanted,))
        self._begin_call(worker)

    def _on_looked_up(self, worker: Worker) -> None:
        """Generate the jobs of a batch that can be in time, now that each knows where it begins."""
        wanted = [job for job in worker.call if self._is_in_time(job, worker)]
        if wanted:
            self._begin_calls(worker, wanted)
        else:
            self._go_on(worker)

    def _fetch_drafts(self, worker: Worker, batch: list[Job]) -> None:
        """Wait for the store, once a batch; as `agents/worker/images.py`."""
        worker.call, worker.is_absolved = batch, True
        self._store.reach(self._restart, worker, self._on_blank, patience_ms=1000 * DRAFT_S)

    def _on_blank(self, worker: Worker) -> None:
        for job in worker.call:
            if job.draft is not None and job.step:
                job.on_blank(self._catalog.level(worker.variant))
                self._store.on_blank += 1
        self._restart(worker)

    def _restart(self, worker: Worker) -> None:
        if worker.is_up:
            worker.batches.appendleft(worker.call)
            self._go_on(worker)

    def _is_alive(self, job: Job) -> bool:
        """Whether somebody still waits for it, and it has not killed too many owners; one that is not has ended."""
        if is_overdue(job.deadline_ms, self._events.now_ms, self._timing.grace_ms):  # the ledger has ended it
            self._tally.ended(Status.EXPIRED, job)
            return False
        if job.attempts > 1 and has_killed_enough(job.attempts):
            self._tally.ended(Status.FAILED, job)
            return False
        return True

    def _is_in_time(self, job: Job, worker: Worker) -> bool:
        """Whether it can be in time; one that cannot has ended, or goes on to a cheaper level."""
        assert worker.logic is not None
        besides_ms = self._besides_ms(job, worker)
        now_ms, placed, due = self._events.now_ms, None, self._refuge.due(job, job.level, job.routed_ms)
        if worker.logic.is_in_time(due.at_ms, self._times.of_job(job), besides_ms, now_ms):
            return True
        if job.draft is None:
            placed = self._refuge.placement(job, job.level, self._plan_state.plan, now_ms)
        if placed is None:
            if due.is_soft and job.draft is None:
                return True
            end_too_late(job, self._tally, self._plan_state, now_ms)
        else:
            job.placed(placed, 0.0, now_ms)
            job.become_new_record(1)
            self.on_refuge(job)
        return False

    def _besides_ms(self, job: Job, worker: Worker) -> float:
        """What a job takes beside its call until it is an answer: loading what the device lacks, and judging."""
        besides_ms = job.judged * self._plan_state.judging_ms(job.level)
        if self.components is not None:
            besides_ms += self.components.lacking_ms(worker, job)
        return besides_ms

    def _in_time(self, call: list[Job], worker: Worker) -> list[list[Job]]:
        """The call, or the two that more of its jobs are in time with."""
        assert worker.logic is not None
        due_ms = [
            math.inf if job.deadline_ms is None else job.deadline_ms - self._besides_ms(job, worker) for job in call
        ]
        return worker.logic.calls_in_time(call, due_ms, self._times.of_call, self._events.now_ms)

    def _begin_call(self, worker: Worker) -> None:
        call = worker.calls.popleft()
        if len(call) > 1:
            call, *others = self._in_time(call, worker)
            worker.calls.extendleft(others)
        worker.call = call
        late = self._late_of.get(worker.variant, self._late)
        own_ms, run_times = self.true_times.of_call(call) / worker.speed, self._run_times
        if worker.loads_beside:
            own_ms *= self._timing.residency.beside_factor
        if run_times.varies:
            own_ms *= run_times.call_factor(worker.variant, sum([job.images for job in call]))
        if late.takes_time:
            own_ms = max(0.0, own_ms + sum([late.next_ms() * job.images for job in call]))
        worker.call_ms = own_ms
        if self.components is not None:
            assert worker.logic is not None
            worker.load_ms = self.components.begin_call(worker, call)
            worker.logic.on_loading(worker.load_ms)
            own_ms += worker.load_ms
        self._events.at(self._events.now_ms + own_ms, self._on_generated, worker)

    def _on_generated(self, worker: Worker) -> None:
        if not worker.is_up:
            return
        worker.busy_ms += worker.call_ms
        assert worker.logic is not None
        worker.logic.on_loaded(worker.load_ms, len(worker.call))
        worker.logic.on_generated(worker.call_ms, self._times.of_call(worker.call))
        self.on_generated(worker.call, worker.call_ms)
        if self.lookups.is_used:
            self.lookups.on_generated(worker)
        if self._store.is_there:
            self._on_stored(worker)
        else:
            worker.is_absolved = True
            self._store.reach(self._on_stored, worker)

    def _on_stored(self, worker: Worker) -> None:
        """The store has the images."""
        if worker.is_up:
            worker.done = worker.call
            self.on_images(worker.call)
            self._rest.put_off(self._go_on, worker)

    def _go_on(self, worker: Worker) -> None:
        """The next call, batch or window."""
        if not worker.is_up:
            return
        if worker.calls:
            self._begin_call(worker)
        elif not self._begins_batch(worker):
            worker.call = []
            worker.state = idle_state(worker.state == "draining")
            assert worker.logic is not None
            worker.logic.end()
            self.on_window_end(worker)
            if self.components is not None and not worker.call:
                self.components.tend(worker)


def _how(job: Job) -> ResolvedOptions | int:
    return job.how or job.step
