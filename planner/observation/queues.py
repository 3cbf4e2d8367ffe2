"""Estimates the number of waiting jobs of a variant and the rate at which they join, from heartbeats."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping

from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog
from planner.observation.observation import Queue
from planner.observation.workers import GONE, SERVING, ReceivedHeartbeat
from schemas.messages import Heartbeat, Plan

IN_CALL = frozenset({"painting", "draining"})  # states of a worker that may have a call, of which little remains
WITH_JOBS = SERVING | IN_CALL  # states of a worker that owns partitions of its variant
QUEUE_WINDOW_MS = 30_000  # in which the growth of a partition is measured
SAMPLE_MS = 1000
MIN_WATCHED_MS = 1000  # before a rate can be estimated


class QueueGrowth:
    """Waiting jobs and arrival rates of variants.

    A partition's end offset grows by one with each job, first attempts and escalations alike: its growth is the
    arrival rate, whatever is in flight.
    """

    def __init__(self) -> None:
        self.held: Callable[[str], int] = Counter[str]().__getitem__  # variant -> jobs that wait before its workers
        self._ends: defaultdict[tuple[str, int], deque[tuple[int, int]]] = defaultdict(deque)  # (ms, end offset)

    def update_from_heartbeats(self, heartbeats: Mapping[str, ReceivedHeartbeat]) -> None:
        """Take in the newest heartbeats; the same ones again change nothing."""
        for seen in heartbeats.values():
            for owned in seen.heartbeat.partitions:
                self.sample(seen.heartbeat.variant, owned.partition, seen.seen_ms, owned.end_offset)

    def sample(self, variant: str, partition: int, at_ms: int, end_offset: int) -> None:
        """A partition ended here then."""
        ends = self._ends[variant, partition]
        if not ends or at_ms - ends[-1][0] >= SAMPLE_MS:
            ends.append((at_ms, end_offset))
        while len(ends) > 2 and at_ms - ends[1][0] >= QUEUE_WINDOW_MS:
            ends.popleft()

    def queues(
        self, heartbeats: Mapping[str, ReceivedHeartbeat], live: Iterable[str], catalog: Catalog
    ) -> tuple[Queue, ...]:
        """Queue of each variant that a live worker serves. A job waits unless its worker has begun it.

        Run times are the catalog's for one image, so that a batch in flight counts as waiting but for one.
        """
        waiting: dict[str, float] = {}
        for worker_id in live:
            beat = heartbeats[worker_id].heartbeat
            if beat.state not in GONE and beat.variant in catalog.variants:
                jobs = _jobs_of(beat, catalog) - (beat.state == "painting")
                waiting[beat.variant] = waiting.get(beat.variant, 0.0) + max(0.0, jobs)
        return tuple(
            Queue(name, jobs + self.held(name), self._arriving_rps(name)) for name, jobs in sorted(waiting.items())
        )

    def unserved(
        self,
        heartbeats: Mapping[str, ReceivedHeartbeat],
        live: Iterable[str],
        catalog: Catalog,
        plan: Plan | None,
        open_requests: int,
    ) -> dict[str, float]:
        """Return variant with allocated workers, none of which serves yet -> estimated number of jobs that wait for it.

        No worker owns their partitions, so no heartbeat reports them. They are the open requests less those at workers,
        divided among such variants by the plan's shares of first images.
        """
        if plan is None:
            return {}
        seen, served = 0.0, set[str]()
        for worker_id in live:
            beat = heartbeats[worker_id].heartbeat
            if beat.variant in catalog.variants and beat.state not in GONE:
                if beat.state in WITH_JOBS:
                    served.add(beat.variant)
                seen += _jobs_of(beat, catalog) + (beat.state in IN_CALL)
        coming = sorted(set(plan.allocation.values()) & catalog.variants.keys() - served)
        if not coming:
            return {}
        shares = dict.fromkeys(coming, 0.0)
        for route in plan.routes:
            for level, share in route.levels.items():
                if variant_of(level) in shares:
                    shares[variant_of(level)] += share
        total, waiting = sum(shares.values()), max(0.0, open_requests - seen)
        return {name: waiting * (share / total if total else 1 / len(shares)) for name, share in shares.items()}

    def _arriving_rps(self, variant: str) -> float:
        spans = [(ends[0], ends[-1]) for (name, _), ends in self._ends.items() if name == variant]
        return sum(
            1000 * max(0, last - first) / (end_ms - begin_ms)
            for (begin_ms, first), (end_ms, last) in spans
            if end_ms - begin_ms >= MIN_WATCHED_MS
        )


def _jobs_of(beat: Heartbeat, catalog: Catalog) -> float:
    """The work that remains in a worker's partitions, in jobs of one image: its calls and what waits."""
    return sum(owned.remaining_ms for owned in beat.partitions) / run_ms(catalog.level(beat.variant), 1)
