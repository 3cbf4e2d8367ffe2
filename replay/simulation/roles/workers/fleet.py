"""The workers' lives: start, load, join a group, leave it for another variant, die. Generating is `serving.py`."""

from collections.abc import Callable, Iterable

from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.observation.workers import WorkerView, live_workers
from planner.serving.dispatch.worker import POLL_MS, SETTLE_MS, WorkerLogic
from planner.serving.dispatch.worker_loads import wanted_variant
from replay.simulation.draws.delays import Delay
from replay.simulation.draws.run_times import NO_VARIATION, RunTimes
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.results.run_metrics import RunMetrics
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.workers.group import Group, Member
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.roles.workers.regrouping import Regrouping
from replay.simulation.roles.workers.serving import Serving
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.setup import Timing


class Fleet:
    """The simulated workers and the job topics that they read."""

    def __init__(
        self,
        events: EventQueue,
        plan_state: PlanState,
        catalog: Catalog,
        timing: Timing,
        beats: Heartbeats,
        serving: Serving,
        tally: RunMetrics,
        seed: int = 0,
        logic_of: Callable[[Variant], WorkerLogic] = WorkerLogic,
        run_times: RunTimes | None = None,
    ) -> None:
        """`logic_of`: what decides while a worker serves a variant."""
        self._run_times = run_times or RunTimes(NO_VARIATION, seed)
        self.speeds: dict[str, float] = {}  # of workers by id, where they are not as fast as profiled
        self._logic_of = logic_of
        self._events, self._plan_state, self._catalog, self._timing = events, plan_state, catalog, timing
        self._beats, self._serving, self._tally = beats, serving, tally
        self._workers: dict[str, Worker] = {}  # by id, the living
        self.all: list[Worker] = []  # every process there was
        self.max_workers = 1  # of one variant, at least
        self.switches = 0  # a worker began to load another variant
        self._sent = 0
        serving.on_window_end = self._on_window_end
        self._fetches = Delay(events, timing.hops.fetch, timing.hops.slot_ms, seed, "fetch")
        self._regrouping = Regrouping(events, timing.group_beat_ms, self._is_busy, self._changed, timing.rebalance_ms)

    def ids(self) -> list[str]:
        """Return the ids of the living workers."""
        return list(self._workers)

    def start(self, worker_id: str, ordered_ms: float | None = None) -> None:
        """Start a worker's process; `ordered_ms`: since when it costs, where it took time to come."""
        worker = Worker(worker_id, self._events.now_ms)
        worker.started_ms = worker.started_ms if ordered_ms is None else ordered_ms
        worker.speed = self.speeds.get(worker_id, 1.0)
        worker.resident = list(self._timing.residency.preloaded)
        if self._serving.components is not None:
            self._serving.components.start(worker)
        self._workers[worker_id] = worker
        self.all.append(worker)
        self._beats.start(worker)
        if self._plan_state.before is not None:
            self._obey(worker)

    def end(self, worker_id: str) -> None:
        """A worker that serves nothing ends by SIGTERM, with a goodbye."""
        worker = self._workers.pop(worker_id)
        assert worker.member is None, f"{worker_id} serves {worker.variant}"
        worker.state = "stopped"
        self._beats.goodbye(worker)
        worker.is_up, worker.stopped_ms = False, self._events.now_ms

    def stop(self, worker_id: str) -> None:
        """End a process as by kill -9: silently, with its running jobs."""
        worker = self._workers.pop(worker_id, None)
        if worker is None:
            return
        worker.is_up, worker.stopped_ms = False, self._events.now_ms
        self._events.at(worker.stopped_ms + self._timing.session_ms, self._expel, worker)

    def send(self, variant: str, partition: int, job: Job) -> None:
        """A job is written to a partition of its variant's topic, and there for a worker a moment later."""
        self._sent += 1
        job.order = self._sent
        group = self.group(variant)
        group.written(partition)
        self._fetches.put_off(self._deliver, (group, partition, job))

    def _deliver(self, sent: tuple[Group, int, Job]) -> None:
        group, partition, job = sent
        owner = group.deliver(partition, job)
        worker = self._workers.get(owner.worker_id) if owner else None
        if worker is not None and worker.member is owner and not worker.call:
            self._serve(worker)

    def group(self, variant: str) -> Group:
        """The topic of a variant; it has as many partitions as there may be workers."""
        if variant not in self._beats.groups:
            self._beats.groups[variant] = Group(max(self.max_workers, len(self.all)))
        return self._beats.groups[variant]

    def obey(self) -> None:
        """Let all workers that are not generating follow a new plan."""
        self._serving.lookups.tend(lambda: tuple(self._workers.values()))
        for worker in list(self._workers.values()):
            self._obey(worker)

    def _obey(self, worker: Worker) -> None:
        if worker.variant == "":
            wanted = self._plan_state.plan.allocation.get(worker.id, "")
            if wanted:
                self._load(worker, wanted, is_first=self._events.now_ms < 0)
        elif worker.member is not None and not worker.call:
            self._serve(worker)

    def _serve(self, worker: Worker) -> None:
        """Follow the plan, and take one window of work."""
        holds = bool(self._timing.residency.beside_factor) and self._timing.loads and self._loads_beside(worker)
        assert worker.logic is not None, "a worker that serves has its logic"
        turn = worker.logic.turn(worker.id, self._plan_state.plan, self._live, self._events.now_ms, holds=holds)
        if turn.leaves or (turn.is_leaving and self._leaves_empty(worker)):
            wanted = self._wanted(worker)
            self._leave(worker)
            if wanted:
                self._load(worker, wanted)
            else:
                self._wait(worker)
        else:
            self._serving.take_window(worker, turn)
            if worker.call:
                self._beats.now(worker)
            elif turn.is_leaving and worker.logic.may_leave_empty(self._events.now_ms):
                self._events.at(self._events.now_ms + POLL_MS, self._recheck, worker)  # all that waited was late

    def _live(self) -> Iterable[WorkerView]:
        return live_workers(self._beats.heartbeats(), int(self._events.now_ms), int(self._timing.silent_ms))

    def _leaves_empty(self, worker: Worker) -> bool:
        """Whether the last worker of a variant leaves its topic, which is empty; if not yet, it asks again later."""
        if worker.logic is None or (worker.member and worker.member.waiting):
            return False
        if worker.logic.may_leave_empty(self._events.now_ms):
            return True
        plan, left_ms = self._plan_state.plan, worker.logic.left_ms
        self._events.at((plan.created_ms if left_ms is None else left_ms) + SETTLE_MS + POLL_MS, self._recheck, worker)
        return False

    def _recheck(self, worker: Worker) -> None:
        if worker.is_up and worker.member is not None and not worker.call:
            self._serve(worker)

    def _on_window_end(self, worker: Worker) -> None:
        if worker.member is not None and worker.member.has_learnt:
            self._regrouping.settle(self.group(worker.variant), worker.member)
        if self._has_work(worker) or self._is_moved(worker):
            self._serve(worker)
        self._beats.now(worker)

    @staticmethod
    def _has_work(worker: Worker) -> bool:
        """Whether jobs wait for the worker, or it belongs to no group and must look for one."""
        return worker.member is None or bool(worker.member.waiting)

    def _wanted(self, worker: Worker) -> str:
        """Return the variant that the plan gives the worker; "" if none."""
        return wanted_variant(worker.id, worker.variant, self._plan_state.plan)

    def _is_moved(self, worker: Worker) -> bool:
        """Whether the plan gives the worker another variant."""
        return self._wanted(worker) != worker.variant

    def _loads_beside(self, worker: Worker) -> bool:
        """Whether the worker goes on serving while it loads the model that the plan wants; one model at a time."""
        wanted = self._wanted(worker)
        if wanted in ("", worker.variant) or wanted in worker.resident:
            return False
        if not worker.loads_beside:
            worker.loads_beside = wanted
            self._events.at(self._events.now_ms + self._load_ms(wanted), self._on_loaded, worker)
        return True

    def _on_loaded(self, worker: Worker) -> None:
        if worker.is_up:
            self._hold(worker, worker.loads_beside)
            worker.loads_beside = ""
            self._recheck(worker)

    def _load_ms(self, variant: str) -> float:
        return self._catalog.level(variant).load_ms * self._run_times.load_factor()

    def _hold(self, worker: Worker, variant: str) -> None:
        """Let the worker hold a model, in place of the one that it served longest ago if there is no room."""
        others = [name for name in worker.resident if name not in (variant, worker.variant)]
        own = [worker.variant] if worker.variant in worker.resident and worker.variant != variant else []
        worker.resident = [*others, *own, variant][-self._timing.residency.models :]

    def _load(self, worker: Worker, variant: str, is_first: bool = False) -> None:
        """Load a variant, unless the worker holds it. The fleet's first load is before the run, which begins warm."""
        self.switches += worker.variant != ""
        is_resident = variant in worker.resident
        worker.variant, worker.state = variant, "loading"
        self._hold(worker, variant)
        self._serving.begin_variant(worker, self._logic_of(self._catalog.level(variant)))
        if is_first or not self._timing.loads:
            self._join(worker)
            return
        self._beats.now(worker)
        answered_ms = 0.0 if self._timing.group_beat_ms else self._timing.rebalance_ms  # else `Regrouping` waits for it
        ready_ms = answered_ms + (0.0 if is_resident else self._load_ms(variant))
        self._events.at(self._events.now_ms + ready_ms, self._join, worker)

    def _join(self, worker: Worker) -> None:
        if not worker.is_up:
            return
        worker.state, worker.member = "ready", Member(worker.id)
        self._regrouping.joined(self.group(worker.variant), worker.member)
        if worker.member is not None and not worker.member.partitions:
            self._beats.now(worker)  # it serves, though nothing is its yet

    def _wait(self, worker: Worker) -> None:
        """The worker has left its variant for the pool."""
        worker.variant, worker.state, worker.logic, worker.window = "", "starting", None, None
        self._beats.now(worker)

    def _leave(self, worker: Worker) -> None:
        """Give its jobs to the remaining workers, or keep them until one joins."""
        member, worker.member = worker.member, None
        assert member is not None
        self._regrouping.left(self.group(worker.variant), member, [])

    def _expel(self, worker: Worker) -> None:
        """End the session of a dead process: other workers get its partitions and begin its jobs again."""
        if worker.member is None:
            return
        suspects = worker.suspects()
        self._tally.retried += len(suspects)
        self._regrouping.left(self.group(worker.variant), worker.member, suspects)
        worker.member = None

    def _is_busy(self, member: Member) -> bool:
        worker = self._workers.get(member.worker_id)
        return worker is None or worker.member is not member or bool(worker.call)

    def _changed(self, members: list[Member]) -> None:
        """Let members whose partitions changed send a heartbeat and look for work."""
        ids = sorted(member.worker_id for member in members)
        for worker in [self._workers[worker_id] for worker_id in ids if worker_id in self._workers]:
            if worker.member is not None:
                self._beats.now(worker)
                if not worker.call:
                    self._serve(worker)
