"""The router's other hand: what lies on the topic of a variant that has lost its last worker goes to those who serve.

Such a topic has no reader. While the plan in force gives the variant nobody, this joins its consumer group, has each
job decided on anew, and commits when the answers are acknowledged; nothing is painted here. If this process dies in
between, a job is taken again: the ledger lets one outcome through.
"""

import logging
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from agents.router.dispatcher import Dispatcher
from agents.router.rerouting import ROLE, WAITS, Rerouting
from agents.runtime.views import EndedView, FleetView, PlanView
from agents.worker.jobs import JobSource, Taken
from planner.catalog.parse import Catalog
from planner.observation.observation import live_workers
from planner.serving.reroute import stranded
from schemas.messages import Plan
from schemas.topics import full_name, jobs_topic, worker_group
from streams.kafka.consumer import now_ms
from streams.kafka.offsets import Unread, refresh, unread
from streams.kafka.producer import RecordProducer
from streams.settings import Settings

log = logging.getLogger(__name__)

LOOK_S = 2.0
POLL_S = 0.2
SWEEP_S = 15.0  # at a time, so that a variant that gets a worker is left; a dead worker's session may last longer
MOST = 100  # jobs at once
REFRESH_S = 3600.0  # far below the week, or less by their brokers' offsets.retention.minutes, that offsets are kept


class Source(Protocol):
    """What `JobSource` offers here."""

    def take(self, most: int, timeout_s: float) -> Sequence[Taken]:
        """Up to `most` jobs of the partitions that are this member's by now."""
        ...

    def commit(self, batch: Sequence[Taken]) -> None:
        """Go past them."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class Sweeper:
    """Looks for stranded jobs. `run` blocks until `stopping` is set."""

    def __init__(
        self,
        catalog: Catalog,
        plans: PlanView,
        fleet: FleetView,
        silent_ms: int,
        rerouting: Rerouting,
        open_source: Callable[[str], Source],
        waiting: Callable[[str], Mapping[int, Unread]],
        refresh: Callable[[str], object] = lambda _variant: None,
    ) -> None:
        """`waiting` tells by partition what the group of a variant has not committed; `refresh` commits the rest again,
        as Kafka drops the offsets of a group that has no member for a week."""
        self._catalog, self._plans, self._fleet, self._silent_ms = catalog, plans, fleet, silent_ms
        self._rerouting, self._open, self._waiting, self._refresh = rerouting, open_source, waiting, refresh
        self._refreshed_s = -math.inf
        # variant -> partition -> offset below which all is answered, or waits and is therefore not committed
        self._seen: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def run(self, stopping: threading.Event) -> None:
        """Look once in a while. Raises KafkaException where the broker does not answer; it may be run again."""
        while not stopping.wait(LOOK_S):
            self.look(stopping)
            if time.monotonic() - self._refreshed_s > REFRESH_S:
                self.refresh()

    def refresh(self) -> None:
        """Keep the offsets of the variants that nobody serves."""
        live = live_workers(self._fleet.heartbeats, now_ms(), self._silent_ms)
        for variant in sorted(set(self._catalog.variants) - {worker.variant for worker in live}):
            self._refresh(variant)
        self._refreshed_s = time.monotonic()

    def look(self, stopping: threading.Event) -> None:
        """Sweep the variants that are stranded and hold jobs."""
        for variant in self._stranded():
            if self._holds(variant):
                self._sweep(variant, stopping)

    def _stranded(self) -> list[str]:
        plan = self._plans.plan
        if plan is None:
            return []
        live = live_workers(self._fleet.heartbeats, now_ms(), self._silent_ms, plan.allocation)
        return stranded(self._catalog.variants, plan, live)

    def _holds(self, variant: str) -> bool:
        seen = self._seen[variant]
        return any(span.end > max(span.start, seen.get(p, 0)) for p, span in self._waiting(variant).items())

    def _sweep(self, variant: str, stopping: threading.Event) -> None:
        source, told, left, until_s = self._open(variant), Counter[str](), set[int](), time.monotonic() + SWEEP_S
        try:
            while not stopping.is_set() and variant in self._stranded() and time.monotonic() < until_s:
                plan, window = self._plans.plan, source.take(MOST, POLL_S)
                if plan is not None and window:
                    told.update(self._serve(variant, source, window, plan, left))
                elif not self._holds(variant):
                    break
        finally:
            source.close()
            if told:
                jobs = ", ".join(f"{count} {what}" for what, count in told.items())
                log.warning("nobody serves %s any more; of what lay there %s", variant, jobs)

    def _serve(
        self, variant: str, source: Source, window: Sequence[Taken], plan: Plan, left: set[int]
    ) -> Sequence[str]:
        """Each job once. `left`: partitions in which one waits, so that nothing from there on is committed."""
        seen = self._seen[variant]
        fresh = [taken for taken in window if taken.record.offset >= seen.get(taken.record.partition, 0)]
        left |= {taken.record.partition for taken in window if taken not in fresh}  # met before, and not committed
        told = self._rerouting.serve(fresh, plan)
        done = []
        for taken, what in zip(fresh, told, strict=True):
            partition = taken.record.partition
            seen[partition] = taken.record.offset + 1
            if what == WAITS:
                left.add(partition)
            if partition not in left:
                done.append(taken)
        if done:
            source.commit(done)
        return told


def sweeper_of(
    settings: Settings, catalog: Catalog, producer: RecordProducer, plans: PlanView, ended: EndedView, fleet: FleetView
) -> Sweeper:
    """The one of a router's process."""
    prefix = settings.kafka.prefix

    def place(variant: str) -> tuple[str, str]:
        return full_name(prefix, jobs_topic(variant, 1).name), worker_group(prefix, variant)

    def waiting(variant: str) -> Mapping[int, Unread]:
        return unread(settings, *place(variant))

    rerouting = Rerouting(catalog, ended, Dispatcher(catalog, fleet, ROLE), producer)
    silent_ms = settings.planner.worker_silent_ms
    return Sweeper(
        catalog,
        plans,
        fleet,
        silent_ms,
        rerouting,
        partial(JobSource, settings),
        waiting,
        lambda variant: refresh(settings, *place(variant)),
    )
