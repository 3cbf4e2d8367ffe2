"""Generating: drives the live worker's `WindowLogic` in simulated time."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from planner.catalog.model import Catalog
from planner.catalog.options import ResolvedOptions
from planner.serving.dispatch.worker import Turn, WorkerLogic, idle_state, jobs_at_once, waiting_state, working_state
from planner.serving.generating.effects import (
    Answer,
    Away,
    Call,
    Called,
    Done,
    Drop,
    Effect,
    End,
    Fetch,
    Fetched,
    Keep,
    Kept,
    LookUp,
    SendOn,
    Wait,
)
from planner.serving.generating.window import COMMIT, WindowLogic
from planner.serving.routing.refuge import RefugeLogic
from replay.simulation.draws.delays import Delay
from replay.simulation.draws.run_times import NO_VARIATION, RunTimes
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.workers.components import Components
from replay.simulation.roles.workers.lookups import Lookups
from replay.simulation.roles.workers.stores import ObjectStore
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.messages import Plan, Status
from streams.store.port import StoreUnavailable

AWAY: Final = StoreUnavailable("the simulated store is away")


class SimulatedWork:
    """What `WindowLogic` asks of one simulated worker's jobs; as `agents/worker/work.py` for a live one."""

    __slots__ = ("_serving", "_store", "_worker", "call_ms", "has_ended", "run_ms")

    def __init__(self, serving: "Serving", worker: Worker) -> None:
        self._serving, self._worker, self._store = serving, worker, serving.store
        self.run_ms, self.call_ms = serving.times.of_job, serving.times.of_call
        self.has_ended = serving.ledger.has_ended

    def plan(self) -> Plan | None:
        """Return the plan in force."""
        return self._serving.plan_state.plan

    def refusal(self, job: Job) -> None:
        """Return None, as no prompt is simulated, and routers and workers have one catalog."""

    def has_objects(self, job: Job) -> bool:
        """Whether the job waits for its draft: one in a store that is there takes no time."""
        return not self._store.is_there and job.refines

    def changes(self, job: Job) -> Sequence[str]:  # noqa: ARG002
        """Return (): no prompt is simulated."""
        return ()

    def looks_up(self) -> bool:
        """Whether a plan has asked for lookups."""
        return self._serving.lookups.is_used

    def key(self, job: Job) -> ResolvedOptions | int:
        """Return what is equal in a call."""
        return job.how or job.step

    def judged_ms(self, job: Job) -> float:
        """Return how long judging its image takes, as far as it is judged."""
        return job.judged * self._serving.plan_state.judging_ms(job.level)

    def lacking_ms(self, job: Job) -> float:
        """Return the time to load what the worker lacks of the job's components."""
        components = self._serving.components
        return 0.0 if components is None else components.lacking_ms(self._worker, job)

    def size(self, job: Job) -> tuple[int, int]:
        """Return the pixels of an image, which do not count as no call fails, and the number of images."""
        return 0, job.images

    def has_failed_here(self, job: Job) -> bool:  # noqa: ARG002
        """Return False: no simulated call fails."""
        return False

    def can_go_elsewhere(self, job: Job) -> bool:  # noqa: ARG002
        """Return False: no simulated call fails."""
        return False

    def begins_with_own_image(self, job: Job) -> bool:  # noqa: ARG002
        """Return False: a simulated engine takes any image."""
        return False

    def on_blank(self, job: Job, kind: str, why: str) -> None:  # noqa: ARG002
        """Let a job begin from noise, not from its draft."""
        job.on_blank(self._serving.catalog.level(job.variant))
        self._serving.store.on_blank += kind == "store"


class Serving:
    """Takes what lies before a worker and generates it; `on_images`, `on_refuge` and `on_window_end` are called."""

    on_images: Callable[[list[Job]], None]
    on_refuge: Callable[[Job], None]  # a job that goes on to a cheaper level
    on_generated: Callable[[list[Job], float], None]  # the jobs of a call, and the ms that it took
    on_window_end: Callable[[Worker], None]

    def __init__(
        self, events: EventQueue, plan_state: PlanState, catalog: Catalog, timing: Timing, times: CallTimes,
        ledger: Ledger, store: ObjectStore, lookups: Lookups, seed: int = 0,
        run_times: RunTimes | None = None, slo_ms: float = 0.0,
    ) -> None:  # fmt: skip
        self.events, self.plan_state, self.catalog, self.timing = events, plan_state, catalog, timing
        self.times, self.ledger, self.store, self.lookups = times, ledger, store, lookups
        self._refuges = RefugeLogic(catalog, slo_ms)
        self.components: Components | None = None  # None: what jobs need is always there
        self.true_times = times  # that calls take; `times` are those that workers expect
        self._run_times = run_times or RunTimes(NO_VARIATION, seed)
        hops = timing.hops
        self._late = Delay(events, hops.paint, hops.slot_ms, seed, "paint")
        self._late_of = {name: Delay(events, own, hops.slot_ms, seed, "paint") for name, own in hops.paint_of.items()}
        self._rest = Delay(events, hops.rest, hops.slot_ms, seed, "rest")
        self._does: dict[type, Callable[[Worker, Any], Answer[Job] | None]] = {
            Fetch: self._fetch, LookUp: self._lookup, Call: self._begin_call, Keep: self._keep,
            Wait: self._wait, SendOn: self._send_on, End: self._end, Drop: self._drop,
        }  # fmt: skip

    def begin_variant(self, worker: Worker, logic: WorkerLogic) -> None:
        """Let a worker serve a variant, with what it reckons with there."""
        worker.logic = logic
        worker.window = WindowLogic(worker.variant, logic, SimulatedWork(self, worker), self._refuges)

    def take_window(self, worker: Worker, turn: Turn) -> None:
        """Begin a window of work, if any waits that is still wanted."""
        assert worker.member is not None
        assert worker.window is not None
        assert not worker.call, f"{worker.id} is generating"
        self._refuges.obey(self.plan_state.plan)
        while worker.member.waiting:
            self.take(worker, turn.max_jobs)
            worker.since_ms, worker.state = self.events.now_ms, working_state(turn.is_leaving)
            if self._carry_out(worker, worker.window.begin(worker.taken, turn.batch, self.events.now_ms)):
                return
            worker.call = []
            worker.window.end()
        worker.state = waiting_state(worker.state, turn.is_leaving)
        if self.components is not None:
            self.components.tend(worker)

    def take(self, worker: Worker, max_jobs: int) -> None:
        """Take the jobs of a window from the worker's topic."""
        assert worker.member is not None
        member = worker.member
        jobs = len(member.waiting)
        if jobs > 1:
            jobs = min(jobs_at_once(max_jobs, are_suspects=member.suspects > 0), jobs)
        worker.taken, worker.is_absolved = member.take(jobs), False

    def _carry_out(self, worker: Worker, effects: Sequence[Effect[Job]]) -> bool:
        """Carry out what a window asks for, as far as it goes without time; return whether the window goes on."""
        answer, does = None, self._does
        for effect in effects:
            if effect is COMMIT:
                return False
            answer = does[type(effect)](worker, effect)
        if answer is None:
            return True
        assert worker.window is not None
        return self._carry_out(worker, worker.window.on(answer, self.events.now_ms))

    def _answer(self, worker: Worker, answer: Answer[Job]) -> None:
        """Let a window go on, and end it when it is done."""
        window = worker.window
        assert window is not None
        if self._carry_out(worker, window.on(answer, self.events.now_ms)):
            return
        worker.call = []
        worker.state = idle_state(worker.state == "draining")
        window.end()
        self.on_window_end(worker)
        if self.components is not None and not worker.call:
            self.components.tend(worker)

    def _done(self, worker: Worker) -> None:
        if worker.is_up:
            self._answer(worker, Done(worker.open_id))

    # What jobs begin with.

    def _fetch(self, worker: Worker, effect: Fetch[Job]) -> Fetched[Job]:
        worker.call = list(effect.jobs)
        if self.store.is_there:
            return Fetched(effect.id)
        return Fetched(effect.id, [Away(job, AWAY, is_draft=True) for job in effect.jobs])

    def _lookup(self, worker: Worker, effect: LookUp[Job]) -> Done | None:
        worker.call, worker.open_id = list(effect.jobs), effect.id
        return None if self.lookups.find(worker, effect.jobs, self._done) else Done(effect.id)

    def _wait(self, worker: Worker, effect: Wait[Job]) -> None:
        self.store.waited(effect.ms, is_first=not worker.is_absolved)
        worker.is_absolved, worker.open_id = True, effect.id
        self.events.at(self.events.now_ms + effect.ms, self._done, worker)

    # A call and its images.

    def _begin_call(self, worker: Worker, effect: Call[Job]) -> None:
        call = worker.call = effect.jobs
        worker.open_id = effect.id
        late = self._late_of.get(worker.variant, self._late)
        own_ms, run_times = self.true_times.of_call(call) / worker.speed, self._run_times
        if worker.loads_beside:
            own_ms *= self.timing.residency.beside_factor
        if run_times.varies:
            own_ms *= run_times.call_factor(worker.variant, sum([job.images for job in call]))
        if late.takes_time:
            own_ms = max(0.0, own_ms + sum([late.next_ms() * job.images for job in call]))
        worker.call_ms = own_ms
        if self.components is not None:
            worker.load_ms = self.components.begin_call(worker, call)
            own_ms += worker.load_ms
        self.events.at(self.events.now_ms + own_ms, self._on_generated, worker)

    def _on_generated(self, worker: Worker) -> None:
        if not worker.is_up:
            return
        worker.busy_ms += worker.call_ms
        self.on_generated(worker.call, worker.call_ms)
        if self.lookups.is_used:
            self.lookups.on_generated(worker)
        self._answer(worker, Called(worker.open_id, worker.call_ms, worker.load_ms))

    def _keep(self, worker: Worker, effect: Keep[Job]) -> Kept[Job] | None:
        if not self.store.is_there:
            return Kept(effect.id, [Away(job, AWAY) for job in effect.jobs])
        worker.sent, worker.open_id = effect.jobs, effect.id
        self.on_images(effect.jobs)
        self._rest.put_off(self._on_sent, worker)
        return None

    def _on_sent(self, worker: Worker) -> None:
        if worker.is_up:
            worker.sent = ()
            self._answer(worker, Kept(worker.open_id))

    # Ends without an image.

    def _send_on(self, worker: Worker, effect: SendOn[Job]) -> None:  # noqa: ARG002
        job = effect.job
        job.placed(effect.placement, 0.0, self.events.now_ms)
        job.become_new_record(1)
        self.on_refuge(job)

    def _end(self, worker: Worker, effect: End[Job]) -> None:  # noqa: ARG002
        self.ledger.end(effect.status, effect.job)

    def _drop(self, worker: Worker, effect: Drop[Job]) -> None:  # noqa: ARG002
        self.ledger.end(Status.EXPIRED, effect.job)
