"""What simulated workers hold of components, and how long a job waits for those that its worker lacks.

Each worker has a `planner.components.tiers.WorkerTiers` and follows `Plan.residency` by
`planner.components.residency.ResidencyLogic`, as the live one does. A load that an idle worker began goes on beside the
jobs that come meanwhile; a job that needs just that component waits for its rest. Transfers do not slow each other.
"""

from collections.abc import Callable, Sequence

from planner.catalog.components import Selection
from planner.catalog.model import Catalog
from planner.catalog.options import AS_IT_IS, resolve_options
from planner.components.component import Kind, Tier, kind_of
from replay.simulation.component_setup import ComponentSetup, ids_of, table_of
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.results.component_metrics import ComponentMetrics
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.workers.component_state import ComponentState
from replay.simulation.roles.workers.worker import Worker


class Components:
    """The components of all simulated workers; `on_changed` is called when an idle worker has loaded one."""

    on_changed: Callable[[Worker], None]

    def __init__(self, events: EventQueue, plan_state: PlanState, catalog: Catalog, setup: ComponentSetup) -> None:
        self._events, self._plan_state, self._catalog, self._setup = events, plan_state, catalog, setup
        self._table = table_of(catalog)
        self._needs: dict[tuple[str, Selection | None], tuple[str, ...]] = {}
        self._workers: dict[str, Worker] = {}
        self.metrics = ComponentMetrics()

    def start(self, worker: Worker) -> None:
        """Give a new process its tiers; the volume of one that died by this name is still there."""
        state = ComponentState(worker.id, self._table, self._setup)
        before = self._workers.get(worker.id)
        if before is not None and before.components is not None:
            for id_ in sorted(before.components.tiers.resident(Tier.VOLUME)):
                state.tiers.adopt(id_, Tier.VOLUME)
        worker.components, self._workers[worker.id] = state, worker

    def needed(self, job: Job) -> tuple[str, ...]:
        """Return the ids of the components that a job needs on its variant."""
        selection = None if job.how is None else job.how.components
        found = self._needs.get((job.variant, selection))
        if found is None:
            variant = self._catalog.level(job.variant)
            resolved = resolve_options(AS_IT_IS, variant).components if selection is None else selection
            found = self._needs[job.variant, selection] = ids_of(resolved, variant, self._table)
        return found

    def lacking_ms(self, worker: Worker, job: Job) -> float:
        """Time to load what the worker lacks of a job's components now, in ms."""
        return _state_of(worker).tiers.lacking_ms(self.needed(job))

    def begin_call(self, worker: Worker, call: Sequence[Job]) -> float:
        """Bring the components of jobs that share a call to the device; return the ms that they wait for it."""
        ids, state, now_ms = self.needed(call[0]), _state_of(worker), self._events.now_ms
        if not ids:
            return 0.0
        state.follow(self._plan_state.plan)
        use = state.tiers.use(ids, now_ms)
        if state.load is not None and state.load.id in use.load_ms:
            use.load_ms[state.load.id] = min(use.load_ms[state.load.id], max(0.0, state.load_ends_ms - now_ms))
        waits_ms = use.overlapped_ms if self._setup.overlaps else use.serial_ms
        is_cold = any(found is Tier.REMOTE and kind_of(id_) is Kind.BASE for id_, found in use.found.items())
        state.calls += 1
        nth_call = state.calls if worker.started_ms > 0 else None
        self.metrics.used(use, len(call), waits_ms, is_cold=is_cold, nth_call=nth_call)
        state.changed()
        return waits_ms

    def tend(self, worker: Worker) -> None:
        """Let an idle worker follow the plan in force, and load the next component that it lacks."""
        state = _state_of(worker)
        state.follow(self._plan_state.plan)
        if state.load is not None or worker.variant == "":
            return
        load = state.logic.next_load(state.tiers, self._events.now_ms)
        if load is not None:
            component = self._table[load.id]
            takes_ms = component.load_from(state.tiers.tier_of(load.id)) - component.load_from(load.tier)
            state.load, state.load_ends_ms = load, self._events.now_ms + takes_ms
            self._events.at(state.load_ends_ms, self._on_loaded, worker)

    def _on_loaded(self, worker: Worker) -> None:
        state = _state_of(worker)
        load, state.load = state.load, None
        if not worker.is_up or load is None:
            return
        self.metrics.prefetched(state.tiers.prefetch(load.id, load.tier, self._events.now_ms))
        if state.tiers.tier_of(load.id) < load.tier:
            state.logic.on_refused(load)
        state.changed()
        self.on_changed(worker)
        if not worker.call:
            self.tend(worker)

    def sample(self) -> None:
        """Take in how many devices hold each base; this changes nothing."""
        self.metrics.sample(
            id_
            for worker in self._workers.values()
            if worker.is_up and worker.components is not None
            for id_ in worker.components.tiers.resident(Tier.DEVICE)
            if kind_of(id_) is Kind.BASE
        )


def _state_of(worker: Worker) -> ComponentState:
    assert worker.components is not None, f"{worker.id} has no tiers"
    return worker.components
