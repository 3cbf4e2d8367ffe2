"""The planner's senses: what it follows, and the one `Observation` that it makes of it (design, 2.8).

`Sources` follows the topics. What they told of late lies in memory: prompts as they came (`Arrivals`), results with
their confidences (`Ends`), and the queues before the workers (`QueueWatch`).
"""

import logging
import sys
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from agents.planner import ROLE
from planner.catalog.bands import bounds_of
from planner.catalog.parse import Catalog, run_ms
from planner.observation.deferral import SeenDeferral, seen_deferral
from planner.observation.forecast import expected_rps
from planner.observation.observation import (
    COUNTS_S,
    DEMAND_MS,
    GONE,
    PROMPTS,
    SCORES,
    SERVED_MS,
    Observation,
    Queue,
    Seen,
    Served,
    WorkerView,
    class_histograms,
    class_shares,
    counts_per_second,
    demand_rps,
    hardness_shares,
)
from planner.serving.placement import OVERLOADED, QUOTA, SHED
from schemas import topics
from schemas.errors import PochadeError
from schemas.messages import ClassifiedRequest, Plan, Result, Status, Step
from schemas.record import Incoming
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode, decode_result
from streams.kafka.consumer import Follower
from streams.operator.explain import steps_of
from streams.settings import Settings

log = logging.getLogger(__name__)

START_S = 20  # for reading what is recent, each topic
MOST_ARRIVALS = 200_000  # remembered, about 3,000 a second; 0.25 KB each, 50 MB in all (measured)
MOST_KINDS = 1000  # of classes, by strategy
QUEUE_WINDOW_MS = 30_000  # in which the growth of a partition is measured
LEAST_MS = 1000  # of watching, before a rate can be told
SAMPLE_MS = 1000


class Fleet(Protocol):
    """What `FleetView` offers here."""

    @property
    def heartbeats(self) -> dict[str, Seen]:
        """worker -> its last heartbeat."""
        ...


class Sources:
    """Follows `classified` and `results` from a minute ago; the fleet is followed by its view."""

    def __init__(self, settings: Settings, catalog: Catalog, fleet: Fleet) -> None:
        self._settings = settings
        self._catalog = catalog
        self._fleet = fleet
        self._slo_ms = 1000 * (settings.planner.slo_s or catalog.slo_s)
        self.arrivals = Arrivals()
        self.ends = Ends(self._slo_ms)
        self.queues = QueueWatch()
        self._followers: dict[str, Follower] = {}
        self._told: tuple[str, ...] = ()

    def open(self) -> None:
        """Begin to follow, and wait for what is recent; a topic that cannot be read in time is gone without."""
        self.close()
        self.arrivals.clear()
        self.ends.clear()
        since_ms = now_ms() - max(1000 * COUNTS_S, SERVED_MS)
        for topic, on_record in ((topics.CLASSIFIED, self.on_classified), (topics.RESULTS, self.on_result)):
            self._followers[topic] = Follower(self._settings, [topic], on_record, since_ms=since_ms).start()
        for follower in self._followers.values():
            try:
                follower.wait_caught_up(START_S)
            except PochadeError as error:
                log.warning("the planner begins without: %s", error)

    def close(self) -> None:
        """Stop following."""
        while self._followers:
            self._followers.popitem()[1].close()

    def on_classified(self, record: Incoming) -> None:
        """A prompt came."""
        self.arrivals.add(decode(record.value, ClassifiedRequest))

    def on_result(self, record: Incoming) -> None:
        """A request ended."""
        result = decode_result(record.value)
        self.ends.add(result, steps_of(result))
        self.arrivals.on_result(result)

    def observation(self, now: int, workers: tuple[WorkerView, ...], plan: Plan | None) -> Observation:
        """All that is seen at a moment. What a source does not tell is left unknown: counted, and logged once."""
        self._tell_missing()
        planner = self._settings.planner
        counts = self.arrivals.counts(now)
        deferral = self.ends.deferral(plan, self._catalog, bounds_of(self._catalog))
        return Observation(
            now_ms=now,
            demand_rps=self.arrivals.demand_rps(now),
            hardness=self.arrivals.hardness(),
            classes=self.arrivals.classes(),
            tiers=self.arrivals.tiers(),
            workers=workers,
            slo_ms=self._slo_ms,
            forecast_rps=expected_rps(planner.forecast, counts, max(1, round(planner.period_ms / 1000))),
            counts=counts,
            queues=self.queues.queues(self._fleet.heartbeats, [w.worker_id for w in workers], self._catalog),
            deferral=deferral,
            served=self.ends.served(now),
            ignored=sum(seen.ignored for seen in deferral),
        )

    def missing(self) -> tuple[str, ...]:
        """The sources of which nothing is known."""
        unread = [topic for topic, follower in self._followers.items() if not follower.is_caught_up.is_set()]
        return (*unread, *(() if self._fleet.heartbeats else (topics.FLEET,)))

    def _tell_missing(self) -> None:
        missing = self.missing()
        for source in missing:
            metrics.FALLBACKS.labels(ROLE, f"no-{source.split('.')[0]}").inc()
        if missing != self._told:
            self._told = missing
            if missing:
                log.warning("the planner sees nothing of %s, and plans without", ", ".join(missing))


class Ended(NamedTuple):
    """A result, as far as it is counted."""

    at_ms: int
    is_in_time: bool


class Arrival(NamedTuple):
    """A prompt as it was classified, as far as it is counted."""

    at_ms: int
    hardness: float
    classes: Mapping[str, str]
    tier: str


class Arrivals:
    """Prompts as they were classified, each request once: a storm of retries asks for no more pictures.

    What a tenant's quota refused is no demand: no plan could serve it.
    """

    def __init__(self) -> None:
        self._known: dict[str, Arrival | None] = {}  # by id, in their order; None: it was taken back
        self._classes: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}  # each kind once: there are few

    def clear(self) -> None:
        """A reader begins again with the window."""
        self._known.clear()

    def add(self, classified: ClassifiedRequest) -> None:
        """One more, unless its request is known."""
        request = classified.request
        if request.request_id not in self._known:
            classes, tier = self._shared(classified.classes), sys.intern(request.tier)
            arrival = Arrival(classified.received_ms, classified.hardness, classes, tier)
            self._know(request.request_id, arrival)

    def _shared(self, classes: Mapping[str, str]) -> Mapping[str, str]:
        if len(self._classes) > MOST_KINDS:
            self._classes.clear()
        return self._classes.setdefault(tuple(sorted(classes.items())), classes)

    def on_result(self, result: Result) -> None:
        """Take back what a quota refused, though its prompt may be read later than its result."""
        if result.code == QUOTA:
            self._know(result.request_id, None)

    def _know(self, request_id: str, arrival: Arrival | None) -> None:
        self._known[request_id] = arrival
        if len(self._known) > MOST_ARRIVALS:
            del self._known[next(iter(self._known))]

    def demand_rps(self, now_ms: int) -> float:
        """Arrivals a second in the window."""
        return demand_rps(self._times(), now_ms, DEMAND_MS)

    def counts(self, now_ms: int) -> tuple[int, ...]:
        """Arrivals in each of the last seconds, the oldest first."""
        return counts_per_second(self._times(), now_ms, COUNTS_S)

    def hardness(self) -> tuple[float, ...]:
        """Histogram of the last prompts, as shares."""
        return hardness_shares([arrival.hardness for arrival in self._last()])

    def classes(self) -> dict[str, dict[str, float]]:
        """H(v) of the last prompts, under each strategy. Source: ARGUS 4.2."""
        return class_histograms([arrival.classes for arrival in self._last()])

    def tiers(self) -> dict[str, float]:
        """tier -> share of the last prompts."""
        return class_shares(arrival.tier for arrival in self._last())

    def _times(self) -> list[int]:
        return [arrival.at_ms for arrival in list(self._known.values()) if arrival]

    def _last(self) -> list[Arrival]:
        newest = list(islice((arrival for arrival in reversed(list(self._known.values())) if arrival), PROMPTS))
        return newest[::-1]


class Ends:
    """Results, with the confidences on their paths: `images` is written before a picture is judged and has none."""

    def __init__(self, slo_ms: float) -> None:
        self._slo_ms = slo_ms
        self._ended: deque[Ended] = deque(maxlen=MOST_ARRIVALS)
        self._scores: defaultdict[str, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=SCORES))

    def clear(self) -> None:
        """A reader begins again with the window."""
        self._ended.clear()
        self._scores.clear()

    def add(self, result: Result, steps: Sequence[Step]) -> None:
        """One more; what somebody cancelled, or asked for wrongly, says nothing of how requests are served."""
        if result.status is not Status.CANCELLED and (
            result.status is not Status.REJECTED or result.code in (OVERLOADED, SHED)
        ):
            self._ended.append(Ended(result.ended_ms, self._is_in_time(result)))
        for step in steps:
            if step.confidence is not None and result.hardness is not None:
                self._scores[step.level].append((result.hardness, step.confidence))

    def _is_in_time(self, result: Result) -> bool:
        is_late = self._slo_ms > 0 and (result.latency_ms or 0) > self._slo_ms
        return result.status is Status.COMPLETED and not is_late

    def served(self, now_ms: int) -> Served:
        """Those of the last minute; their pictures' quality is nobody's to tell live."""
        of_late = [ended for ended in list(self._ended) if 0 <= now_ms - ended.at_ms < SERVED_MS]
        if not of_late:
            return Served()
        return Served(len(of_late), sum(ended.is_in_time for ended in of_late) / len(of_late))

    def deferral(self, plan: Plan | None, catalog: Catalog, bounds: Sequence[float]) -> tuple[SeenDeferral, ...]:
        """The curves of the levels that were scored, by the discriminator that the plan or the catalog has for them."""
        judges = {pair.light: pair.discriminator for pair in reversed(catalog.cascades)}
        judges |= {cascade.level: cascade.discriminator for cascade in (plan.cascades if plan else ())}
        return tuple(
            seen_deferral(level, judges[level], list(self._scores[level]), bounds)
            for level in sorted(self._scores.keys() & judges.keys())
        )


class QueueWatch:
    """How many jobs of a variant wait and how fast they join, from what heartbeats tell of its partitions.

    A partition's end offset grows by one with each job, first attempts and escalations alike: its growth is the
    arrival rate, whatever is in flight (facts/peers.md 0.1).
    """

    def __init__(self) -> None:
        self._ends: defaultdict[tuple[str, int], deque[tuple[int, int]]] = defaultdict(deque)  # (ms, end offset)

    def look(self, heartbeats: Mapping[str, Seen]) -> None:
        """Take in the newest heartbeats; the same ones again change nothing."""
        for seen in heartbeats.values():
            for owned in seen.heartbeat.partitions:
                ends = self._ends[seen.heartbeat.variant, owned.partition]
                if not ends or seen.seen_ms - ends[-1][0] >= SAMPLE_MS:
                    ends.append((seen.seen_ms, owned.end_offset))
                while len(ends) > 2 and seen.seen_ms - ends[1][0] >= QUEUE_WINDOW_MS:
                    ends.popleft()

    def queues(self, heartbeats: Mapping[str, Seen], live: Iterable[str], catalog: Catalog) -> tuple[Queue, ...]:
        """Of each variant that a live worker serves. A job waits unless its worker has begun it; run times are the
        catalog's for one picture, so that a batch in hand counts as waiting but for one."""
        waiting: dict[str, float] = {}
        for worker_id in live:
            beat = heartbeats[worker_id].heartbeat
            if beat.state not in GONE and beat.variant in catalog.variants:
                work_ms = sum(owned.remaining_ms for owned in beat.partitions)
                jobs = work_ms / run_ms(catalog.level(beat.variant), 1) - (beat.state == "painting")
                waiting[beat.variant] = waiting.get(beat.variant, 0.0) + max(0.0, jobs)
        return tuple(Queue(name, jobs, self._arriving_rps(name)) for name, jobs in sorted(waiting.items()))

    def _arriving_rps(self, variant: str) -> float:
        spans = [(ends[0], ends[-1]) for (name, _), ends in self._ends.items() if name == variant]
        return sum(
            1000 * max(0, last - first) / (end_ms - begin_ms)
            for (begin_ms, first), (end_ms, last) in spans
            if end_ms - begin_ms >= LEAST_MS
        )
