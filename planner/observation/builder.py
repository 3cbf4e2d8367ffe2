"""Builds the planner's `Observation` from arrivals, results and heartbeats, live and simulated alike."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from planner.catalog.bands import bounds_of
from planner.catalog.model import Catalog
from planner.observation.arrivals import ArrivalLog
from planner.observation.components import ComponentLog
from planner.observation.hops import Hops
from planner.observation.in_flight import WINDOW_MS, InFlight
from planner.observation.needs import Needs
from planner.observation.observation import (
    ANY_LEVEL,
    COUNTS_S,
    DEMAND_MS,
    Observation,
    class_histograms,
    class_shares,
    counts_per_second,
    demand_rps,
    hardness_shares,
)
from planner.observation.queues import QueueGrowth
from planner.observation.results import Results
from planner.observation.reuse import ReuseLog
from planner.observation.run_times import RunTimes
from planner.observation.workers import ReceivedHeartbeat, WorkerView
from schemas.messages import Plan

Log = TypeVar("Log", bound=ArrivalLog)


class ObservationBuilder(Generic[Log]):
    """Builds observations; fed from topics live and from arrays in the simulator, with equal windows and estimates."""

    def __init__(
        self, catalog: Catalog, arrivals: Log, *, slo_ms: float, in_flight_ms: float = WINDOW_MS
    ) -> None:  # fmt: skip
        """`slo_ms`: latency beyond which an answer is late; 0: none is. `in_flight_ms`: over which means are taken."""
        self._catalog, self._bounds, self._slo_ms = catalog, bounds_of(catalog), slo_ms
        self.arrivals, self.results, self.queues, self.reuse = arrivals, Results(slo_ms), QueueGrowth(), ReuseLog()
        self.run_times, self.hops, self.components = RunTimes(catalog), Hops(), ComponentLog(catalog)
        self.in_flight, self.needs = InFlight(in_flight_ms), Needs(catalog)

    def observation(
        self,
        now_ms: int,
        workers: tuple[WorkerView, ...],
        heartbeats: Mapping[str, ReceivedHeartbeat],
        plan: Plan | None,
        open_requests: int = 0,
    ) -> Observation:
        """Return the observation of this moment, without a forecast, which is each policy's own.

        `plan`: the one in force, which names each level's discriminator. `open_requests`: number without a result.
        """
        times_ms, prompts = self.arrivals.times_ms(now_ms), self.arrivals.last()
        counts = counts_per_second(times_ms, now_ms, COUNTS_S)
        deferral = self.results.deferral(plan, self._catalog, self._bounds)
        live = [worker.worker_id for worker in workers]
        components = self.components.observed(heartbeats, live, plan, now_ms)
        needs = self.needs.observed(now_ms)
        unserved = self.queues.unserved(heartbeats, live, self._catalog, plan, open_requests)
        if plan is not None and plan.allocation and self._catalog.variants.keys().isdisjoint(plan.allocation.values()):
            unserved = {ANY_LEVEL: float(max(0, open_requests - sum(need.waiting for need in needs)))}
        return Observation(
            now_ms=now_ms,
            demand_rps=demand_rps(times_ms, now_ms, DEMAND_MS),
            hardness=hardness_shares(prompts.hardness),
            classes=class_histograms(prompts.classes),
            tiers=class_shares(prompts.tiers),
            workers=workers,
            slo_ms=self._slo_ms,
            counts=counts,
            queues=self.queues.queues(heartbeats, live, self._catalog),
            unserved=unserved,
            run_times=self.run_times.observed(),
            deferral=deferral,
            hop_ms=self.hops.observed_ms(),
            served=self.results.served(now_ms),
            reuse=self.reuse.observed(heartbeats, live),
            in_force=plan,
            needs=needs,
            components=components,
            ignored=sum(seen.ignored for seen in deferral) + self.components.ignored,
            in_flight=self.in_flight.means(now_ms),
        )
