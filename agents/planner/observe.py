"""Follows the planner's topics, and feeds them to the builder of its `Observation`."""

import logging
import threading
from typing import Protocol

from agents.planner import ROLE
from agents.runtime.stream_roles import soft_slo_of
from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.observation.arrivals import Arrival, Arrivals
from planner.observation.builder import ObservationBuilder
from planner.observation.observation import COUNTS_S, SERVED_MS, Observation
from planner.observation.workers import ReceivedHeartbeat, WorkerView
from planner.serving.decisions import LACKED_CAPACITY, QUOTA
from planner.serving.routing.composing import Fits
from schemas import topics
from schemas.errors import PochadeError
from schemas.messages import ClassifiedRequest, Plan, Status
from schemas.record import Incoming
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode, decode_result
from streams.kafka.consumers.consumer import TopicTailer
from streams.operator.explain import steps_of
from streams.settings import Settings

log = logging.getLogger(__name__)

START_S = 20  # for reading what is recent, each topic


class Fleet(Protocol):
    """The part of `FleetView` that the planner uses."""

    @property
    def heartbeats(self) -> dict[str, ReceivedHeartbeat]:
        """worker -> its last heartbeat."""


class Sources:
    """Follows `classified` and `results` from a minute ago; the fleet is followed by its view."""

    def __init__(self, settings: Settings, catalog: Catalog, fleet: Fleet) -> None:
        self._settings, self._catalog, self._fleet = settings, catalog, fleet
        self.builder = ObservationBuilder(
            catalog,
            Arrivals(),
            slo_ms=soft_slo_of(settings, catalog),
            in_flight_ms=1000 * settings.planner.scale.period_s,
        )
        self._followers: dict[str, TopicTailer] = {}
        self._warned_of: tuple[str, ...] = ()
        self._in_flight_lock = threading.Lock()  # two followers write, the planner reads
        self._best_ms, self._fits = run_ms(catalog.best(), 1), Fits(catalog)
        self.heard = 0  # requests and results; of two that come at once one may count, which is news enough

    def open(self) -> None:
        """Begin to follow, and wait for recent records; a topic that cannot be read in time is left out."""
        self.close()
        self.builder.arrivals.clear()
        self.builder.results.clear()
        self.builder.reuse.clear()
        self.builder.run_times.clear()
        self.builder.hops.clear()
        self.builder.components.clear()
        self.builder.in_flight.clear()
        self.builder.needs.clear()
        since_ms = now_ms() - max(1000 * COUNTS_S, SERVED_MS)
        for topic, on_record in ((topics.CLASSIFIED, self.on_classified), (topics.RESULTS, self.on_result)):
            self._followers[topic] = TopicTailer(self._settings, [topic], on_record, since_ms=since_ms).start()
        for follower in self._followers.values():
            try:
                follower.wait_caught_up(START_S)
            except PochadeError as error:
                log.warning("the planner begins without: %s", error)

    def close(self) -> None:
        """Stop following the topics."""
        while self._followers:
            self._followers.popitem()[1].close()

    def on_classified(self, record: Incoming) -> None:
        """Take in a classified request."""
        classified = decode(record.value, ClassifiedRequest)
        request = classified.request
        self.heard += 1
        arrival = Arrival(classified.received_ms, classified.hardness, classified.classes, request.tier)
        if self.builder.arrivals.add(request.request_id, arrival):
            self.builder.components.on_request(request.options, request.tenant, classified.received_ms)
        needs = self._fits.of(request.options, request.quality).needs()
        named = needs[0] if len(needs) == 1 else ""
        with self._in_flight_lock:
            if self.builder.in_flight.begin(request.request_id, request.tenant, named, classified.received_ms):
                self.builder.needs.begin(request.request_id, request, needs, classified.received_ms)

    def on_result(self, record: Incoming) -> None:
        """Take in a result. Its path has the confidences: `images` is written before an image is judged."""
        result = decode_result(record.value)
        self.heard += 1
        steps, results = steps_of(result), self.builder.results
        lacked = result.status is Status.REJECTED and result.code in LACKED_CAPACITY
        with self._in_flight_lock:
            self.builder.in_flight.end(result.request_id, result.ended_ms, self._best_ms if lacked else 0.0)
            self.builder.needs.end(result.request_id, is_demand=result.code != QUOTA)
        results.add(result.status, result.ended_ms, result.latency_ms or 0, result.code)
        if result.status is Status.COMPLETED and result.created_ms is not None and result.latency_ms is not None:
            self.builder.hops.add(steps, result.created_ms, result.latency_ms)
        for step in steps:
            if step.confidence is not None and result.hardness is not None:
                results.add_score(step.level, step.discriminator, result.hardness, step.confidence)
            if not (step.more or (step.reuse and step.reuse.step)):  # from a stored latent it takes another time
                load_ms = step.times.load_ms if step.times is not None else 0.0  # of components: no profile has it
                self.builder.run_times.add(step.level, step.batch, step.refine_from_step, step.generate_ms - load_ms)
            if step.reuse is not None:
                self.builder.reuse.add(step.level, step.reuse.step, step.reuse.steps, step.reuse.miss, self._catalog)
        if result.code == QUOTA:
            self.builder.arrivals.take_back(result.request_id)

    def on_heartbeats(self) -> None:
        """Take in the newest heartbeats."""
        self.builder.queues.update_from_heartbeats(self._fleet.heartbeats)

    def asked(self, now: int) -> frozenset[str]:
        """Return the variants that requests in flight name; "": any level."""
        with self._in_flight_lock:
            return self.builder.in_flight.asked(now)

    def needed(self) -> frozenset[tuple[str, ...]]:
        """Return the variants of which requests in flight need one, as no other serves them."""
        with self._in_flight_lock:
            return self.builder.needs.asked()

    def observation(self, now: int, workers: tuple[WorkerView, ...], plan: Plan | None) -> Observation:
        """Return the observation now. A silent source leaves its part unknown; it is counted, and logged once."""
        self._report_missing()
        with self._in_flight_lock:
            return self.builder.observation(now, workers, self._fleet.heartbeats, plan, self.builder.in_flight.count())

    def missing(self) -> tuple[str, ...]:
        """The sources that are silent."""
        unread = [topic for topic, follower in self._followers.items() if not follower.is_caught_up.is_set()]
        return (*unread, *(() if self._fleet.heartbeats else (topics.FLEET,)))

    def _report_missing(self) -> None:
        missing = self.missing()
        for source in missing:
            metrics.FALLBACKS.labels(ROLE, f"no-{source.split('.')[0]}").inc()
        if missing != self._warned_of:
            self._warned_of = missing
            if missing:
                log.warning("the planner sees nothing of %s, and plans without", ", ".join(missing))
