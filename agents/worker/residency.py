"""Brings the components that the plan lists for a worker to its tiers while it is idle, in a thread of its own."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from agents.components.store import ComponentStore, Prefetched
from planner.components.eviction import eviction_under
from planner.components.residency import ResidencyLogic
from schemas.messages import Plan
from streams import metrics

log = logging.getLogger(__name__)

PERIOD_S: Final = 0.5  # between looks at the plan, and at whether the worker is idle


class Prefetcher:
    """Obeys `Plan.residency`, one component at a time. What fails is counted, and stops nothing."""

    def __init__(
        self, worker_id: str, store: ComponentStore, plan: Callable[[], Plan | None], is_idle: Callable[[], bool]
    ) -> None:
        """`plan`: the one in force. `is_idle`: whether the worker has no job."""
        self._store, self._plan, self._is_idle = store, plan, is_idle
        self._logic = ResidencyLogic(worker_id, store.known)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)

    def start(self) -> "Prefetcher":
        """Begin to look at the plan."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop, once a component that is on its way has arrived."""
        self._stopping.set()
        self._thread.join()

    def step(self) -> bool:
        """Pin what the plan lists, and bring one component if the worker is idle; return whether more may follow."""
        plan, before = self._plan(), self._logic.unknown
        residency = plan.residency if plan is not None else None
        self._store.evict_by(eviction_under(residency))
        if self._logic.follow(residency):
            self._store.pin(self._logic.pinned)
            metrics.PREFETCHES.labels("unknown").inc(self._logic.unknown - before)
        if not self._is_idle():
            return False
        self._store.refresh()
        load = self._logic.next_load(self._store, self._store.now_ms())
        if load is None:
            return False
        became = self._store.prefetch(load.id, load.tier)
        if became is Prefetched.BUSY:
            return False
        metrics.PREFETCHES.labels(became).inc()
        if became is not Prefetched.LOADED:
            self._logic.on_refused(load)
        return True

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                has_more = self.step()
            except Exception:  # a worker that prefetches nothing still serves
                log.exception("nothing is prefetched this time")
                metrics.FALLBACKS.labels("worker", "prefetch").inc()
                has_more = False
            if not has_more:
                self._stopping.wait(PERIOD_S)
