"""Orphaned jobs: those on the topic of a variant that has lost its last worker, and where they go instead."""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from planner.catalog.model import Catalog
from planner.observation.workers import SERVING, ReceivedHeartbeat, WorkerView, live_workers
from planner.serving.decisions import ENDED, Ignored, Rejection
from planner.serving.requests import ClassifiedValues
from planner.serving.routing.escalation import Keep
from planner.serving.routing.loads import Loads
from planner.serving.routing.placement import Placement
from planner.serving.routing.routing import RoutingLogic
from schemas.messages import Plan

POLL_MS: Final = 2000.0  # between two searches for orphaned jobs


def orphaned_variants(variants: Iterable[str], plan: Plan, workers: Iterable[WorkerView]) -> list[str]:
    """The variants that no live worker serves or is on its way to, by name.

    `workers`: the live ones with what `plan`, the one in force, allocates to them. There is none while the plan counts
    on a worker that is gone, for the next plan may give the variant another one; nor while no worker serves anything,
    for there is nowhere to go.
    """
    live = list(workers)
    if plan.allocation.keys() - {worker.worker_id for worker in live}:
        return []
    if not any(worker.state in SERVING for worker in live):
        return []
    held = {worker.variant for worker in live} | {worker.home for worker in live}
    return sorted(set(variants) - held)


class RemainsInQueue(NamedTuple):
    """The job stays where it lies."""

    why: str


WAITS_FOR_WORKER = RemainsInQueue("waits for a worker of its level")


class OrphanRouting:
    """Decides on orphaned jobs: those on the topic of a variant that has lost its last worker.

    The live rerouter (`agents/router/reroute.py`) and the simulator's call it every POLL_MS.
    """

    def __init__(self, catalog: Catalog, routing: RoutingLogic, silent_ms: int) -> None:
        """`silent_ms`: a worker without a heartbeat for longer is gone."""
        self._catalog = catalog
        self._routing = routing
        self._silent_ms = silent_ms
        self._unserved_ms: int | None = None  # when no worker served anything last, or was looked for first

    def orphaned(self, plan: Plan | None, heartbeats: Mapping[str, ReceivedHeartbeat], now_ms: int) -> list[str]:
        """The variants whose jobs go elsewhere now; `heartbeats`: the last one of each worker."""
        live = live_workers(heartbeats, now_ms, self._silent_ms, plan.allocation if plan else {})
        if self._unserved_ms is None or not any(worker.state in SERVING for worker in live):
            self._unserved_ms = now_ms
        return [] if plan is None else orphaned_variants(self._catalog.variants, plan, live)

    def reroute(
        self,
        classified: ClassifiedValues,
        variant: str,
        plan: Plan,
        loads: Loads,
        now_ms: float,
        *,
        has_ended: bool,
        has_draft: bool,
        waited_ms: float,
    ) -> Placement | Rejection | Keep | Ignored | RemainsInQueue:
        """Decide on an orphaned job of `variant`.

        A job that was to replace a draft leaves the draft as the answer, as where the next level has no time. Any other
        is decided on anew by the plan in force. It was admitted before, so it is not shed and no backlog is too long.
        It stays in its queue if no worker serves the level that it would go to: it names its model, or no level of the
        plan has a worker that is ready. The latter passes, so that jobs which stay are asked about again; the former is
        answered otherwise once it has waited for longer than any backlog may last. `waited_ms`: since it was routed;
        the time in which no worker served anything does not count, as the named level may be served once they return.
        """
        if has_ended:
            return ENDED
        if has_draft:
            return Keep(None, f"no worker serves {variant} any more; the draft was kept")
        served_ms = waited_ms if self._unserved_ms is None else min(waited_ms, now_ms - self._unserved_ms)
        decision = self._routing.reroute(classified, plan, loads, now_ms, served_ms)
        waits = isinstance(decision, Placement) and math.isinf(loads.wait_ms(decision.variant))
        return WAITS_FOR_WORKER if waits else decision
