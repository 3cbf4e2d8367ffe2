"""A question's workers with components in tiers, and their figures."""

from typing import Any, NamedTuple

from planner.catalog.model import Catalog
from replay.simulation.component_setup import SHARE, ComponentSetup, budgets_of, needs_of
from replay.simulation.run import Ran
from replay.traces import Trace

GB = 1e9
FEW_PARTS, MANY_PARTS = "1", "3"  # components that a call needs: a base, and a base with two others


class Tiers(NamedTuple):
    """Tiers of each worker, by the bytes of all components in use."""

    share: float = SHARE  # that each volume holds, and all devices together
    overlaps: bool = False  # components of a call load at once

    def setup(self, trace: Trace, catalog: Catalog, workers: int) -> ComponentSetup:
        """Return the tiers for what a trace asks for."""
        budgets = budgets_of(needs_of(trace, catalog), catalog, workers, self.share)
        return ComponentSetup(budgets=budgets, overlaps=self.overlaps)


class Moved(NamedTuple):
    """Loads and bytes moved of a run's workers."""

    network_gb: float = 0.0
    disk_gb: float = 0.0  # written to volumes and read from them
    device_hits: float = 0.0  # share of the components of calls that were on the device
    load_s: float = 0.0  # that an answer waited for components, mean
    queue_s: float = 0.0  # that an answer waited for a worker, mean
    per_worker_h: float = 0.0  # answers of a worker in an hour
    base_s: float = 0.0  # mean time of an update, by kind
    adapter_s: float = 0.0
    control_s: float = 0.0
    pipeline_s: float = 0.0
    base_cv: float = 0.0  # coefficient of variation
    base_near: float = 0.0  # share of the updates of bases from host memory
    few_s: float = 0.0  # that calls wait which need a base alone
    many_s: float = 0.0  # that calls wait which need three components
    newcomer_s: float = 0.0  # that the first calls of workers wait which came during the run


def moved_of(ran: Ran) -> Moved:
    """Return what a run says of components; zeros where none were simulated."""
    found: dict[str, Any] = dict(ran.components)
    if not found:
        return Moved()
    answers, moved, updates = max(1, ran.tally.requests), found["bytes_moved"], found["updates"]
    means, load_s = updates["mean_s"], found["load_s"] / answers
    mean_ms = ran.tally.latencies.mean() or 0.0
    near, all_bases = updates["from"].get("base.host", 0.0), updates["count"].get("base", 0.0)
    return Moved(
        network_gb=moved["volume"] / GB,
        disk_gb=(moved["volume"] + moved["host"]) / GB,
        device_hits=found["hits_by_tier"]["device"],
        load_s=load_s,
        queue_s=(mean_ms - ran.busy_ms / answers) / 1000 - load_s,
        per_worker_h=3_600_000 * answers / ran.up_ms if ran.up_ms else 0.0,
        base_s=means.get("base", 0.0),
        adapter_s=means.get("adapter", 0.0),
        control_s=means.get("control", 0.0),
        pipeline_s=means.get("pipeline", 0.0),
        base_cv=updates["cv"].get("base", 0.0),
        base_near=near / all_bases if all_bases else 0.0,
        few_s=updates["wait_s_by_parts"].get(FEW_PARTS, 0.0),
        many_s=updates["wait_s_by_parts"].get(MANY_PARTS, 0.0),
        newcomer_s=updates["newcomers"]["wait_s"],
    )
