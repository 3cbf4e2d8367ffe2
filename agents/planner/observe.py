"""The planner's senses: what it follows, and the one `Observation` that it makes of it (design, 2.8)."""

import logging
from typing import Protocol

from agents.planner import ROLE
from agents.planner.queues import QueueWatch
from agents.planner.window import Arrivals, Ends
from planner.catalog.bands import bounds_of
from planner.catalog.parse import Catalog
from planner.observation.forecast import expected_rps
from planner.observation.observation import COUNTS_S, SERVED_MS, Observation, Seen, WorkerView
from schemas import topics
from schemas.errors import PochadeError
from schemas.messages import ClassifiedRequest, Plan
from schemas.record import Incoming
from streams import metrics
from streams.codec.avro import decode, decode_result
from streams.kafka.consumer import Follower, now_ms
from streams.operator.explain import steps_of
from streams.settings import Settings

log = logging.getLogger(__name__)

START_S = 20  # for reading what is recent, each topic


class Fleet(Protocol):
    """What `FleetView` offers here."""

    @property
    def heartbeats(self) -> dict[str, Seen]:
        """worker -> its last heartbeat."""
        ...


class Sources:
    """Follows `classified` and `results` from a minute ago; the fleet is followed by its view."""

    def __init__(self, settings: Settings, catalog: Catalog, fleet: Fleet) -> None:
        self._settings, self._catalog, self._fleet = settings, catalog, fleet
        self._slo_ms = 1000 * (settings.planner.slo_s or catalog.slo_s)
        self.arrivals, self.ends, self.queues = Arrivals(), Ends(self._slo_ms), QueueWatch()
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
