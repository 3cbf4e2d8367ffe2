"""The view of the workers' loads that a simulated sender has: a live one's, spared heartbeats that say nothing new."""

from planner.serving.dispatch.worker_loads import LoadView, WorkerPool


class SimulatedLoadView(LoadView):
    """A `LoadView` that takes over only when a worker was alive, where its heartbeat says nothing else."""

    def on_sign_of_life(self, worker_id: str, seen_ms: float) -> None:
        """Take over the time of a heartbeat that says what the view knows already. No-op for an unknown worker."""
        worker = self._workers.get(worker_id)
        if worker is not None and seen_ms > worker.seen_ms:
            worker.seen_ms = seen_ms
            if worker.pool is None:  # it may have been silent
                self._invalidate(worker.variant)

    def known_pool(self, variant: str, now_ms: float) -> WorkerPool | None:
        """Return the workers that take new jobs of a variant; None if some have changed, or may have become silent."""
        pool = self._pools.get(variant)
        return pool if pool is not None and now_ms <= pool.until_ms else None
