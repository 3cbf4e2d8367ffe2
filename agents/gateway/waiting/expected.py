"""Places and expected times of open requests, computed from the topics, for clients that wait.

`pochade_gateway_expected_ratio` measures the error: a request's actual time by its first expected one.
"""

import threading
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Final

from agents.gateway.streaming.notes import Note
from agents.runtime.views import FleetView, PlanView
from planner.catalog.model import Catalog
from planner.observation.lost import Begun, Lost, lost
from planner.serving.routing.expecting import Expectation, Expecting
from schemas.messages import EventKind, GenerateRequest, Plan
from streams import metrics

REUSED_MS: Final = 50.0  # time for which an answer is reused if no record has come
PAST_MS: Final = 60_000  # before the start; older requests are skipped, as their ends may have been read before them
NOTHING: Final[Mapping[str, Expectation]] = {}


def lost_by(fleet: FleetView, begun: Begun, at_ms: int) -> Lost | None:
    """Return what became of the worker that has begun a request, by its fleet; None: it generates it."""
    return lost(begun, fleet.heartbeats, at_ms, fleet.silent_ms, fleet.lease_ms)


class _Fleet:
    """The workers at one moment; satisfies `FleetValues`. Each variant is looked up once."""

    def __init__(self, view: FleetView, at_ms: int) -> None:
        self._view = view
        self._at_ms = at_ms
        self._known: dict[str, tuple[int, float]] = {}

    def _of(self, variant: str) -> tuple[int, float]:
        known = self._known.get(variant)
        if known is None:
            workers = self._view.serving([variant], self._at_ms)
            known = self._known[variant] = workers, self._view.slowness(variant, self._at_ms)
        return known

    def serving_of(self, variant: str) -> int:
        """Number of workers that take new jobs of a variant."""
        return self._of(variant)[0]

    def slowness(self, variant: str) -> float:
        """Run time of a variant's calls as served, as a multiple of the profiled one."""
        return self._of(variant)[1]

    def has_lost(self, begun: Begun) -> bool:
        """Whether the worker that has begun a request does not live any more, or has handed it back."""
        return lost_by(self._view, begun, self._at_ms) is not None


class ExpectedTimes:
    """The open requests of all tenants with their expected places and times. Thread-safe."""

    def __init__(
        self,
        catalog: Catalog,
        plans: PlanView,
        fleet: FleetView,
        is_caught_up: Callable[[], bool],
        clock_ms: Callable[[], int],
        slo_ms: float = 0.0,
    ) -> None:
        """`is_caught_up`: whether the topics' past is read; before, nothing is expected."""
        self._catalog = catalog
        self._plans = plans
        self._fleet = fleet
        self._is_caught_up = is_caught_up
        self._clock_ms = clock_ms
        self._since_ms = clock_ms() - PAST_MS
        self._lock = threading.Lock()
        self._expecting = Expecting(catalog, slo_ms)
        self._last, self._last_ms = NOTHING, -1.0  # answer and when it was given; below 0: something is new since

    def on_request(self, request: GenerateRequest) -> None:
        """Take in a request, as it was sent or read."""
        if request.created_ms < self._since_ms:
            return
        with self._lock:
            self._expecting.on_request(request)
            self._last_ms = -1.0

    def on_note(self, request_id: str, note: Note) -> None:
        """Take in an event of a request."""
        with self._lock:
            if note.kind == EventKind.STARTED:
                self._expecting.on_started(request_id, note.level, note.worker, note.at_ms, note.skipped)
            elif note.kind in (EventKind.ESCALATED, EventKind.REROUTED):
                self._expecting.on_sent_on(request_id, note.level, note.skipped)
            self._last_ms = -1.0

    def on_ended(self, request_id: str, *, is_served: bool) -> None:
        """Take in that a request has ended. `is_served`: whether its result has an image."""
        with self._lock:
            ratio = self._expecting.on_ended(request_id, self._clock_ms(), is_served=is_served)
            self._last_ms = -1.0
        if ratio is not None:
            metrics.GATEWAY_EXPECTED.observe(ratio)

    def of(self, request_id: str) -> Expectation | None:
        """Return a request's place and expected time now; None if unknown.

        Unknown while the past is not read, without a plan, if no worker serves the request's level, and for a request
        that is not in the queue, such as one of the batch tier before its gate.
        """
        plan, now_ms = self._plans.plan, self._clock_ms()
        if plan is None or not self._is_caught_up():
            return None
        with self._lock:
            if not 0 <= now_ms - self._last_ms <= REUSED_MS or self._last_ms < 0:
                self._fleet.obey(plan)
                self._last = self._expecting.expected(plan, _Fleet(self._fleet, now_ms), now_ms)
                self._last_ms = now_ms
            return self._last.get(request_id)

    def serving(self, variant: str) -> tuple[int, float, float | None]:
        """Return a variant's workers that take new jobs, its run time as a multiple of the profiled one, and its price.

        The price is that of a worker for an hour, on average; None: not known.
        """
        with self._lock:
            if (plan := self._plans.plan) is not None:
                self._fleet.obey(plan)
            now_ms = self._clock_ms()
            fleet, prices = _Fleet(self._fleet, now_ms), self._fleet.prices(now_ms, variant)
            return fleet.serving_of(variant), fleet.slowness(variant), fmean(prices) if prices else None

    def hindered(self, request_id: str, begun: Begun | None) -> str:
        """Say what an open request waits for that no worker serves, or that its worker is lost; "": neither.

        `begun`: the worker that has begun it; None: none has.
        """
        if begun is None:
            return self._waits_in_vain(request_id)
        now_ms = self._clock_ms()
        found = lost_by(self._fleet, begun, now_ms) if self._is_caught_up() else None
        return "" if found is None else found.in_words(is_served=self._fleet.serves(begun.variant, now_ms))

    def _waits_in_vain(self, request_id: str) -> str:
        plan, now_ms = self._plans.plan, self._clock_ms()
        if plan is None or not self._is_caught_up():
            return ""
        with self._lock:
            return self._expecting.waits_in_vain(request_id, self._serving(plan, now_ms), now_ms)

    def lacking(self, request: GenerateRequest) -> str:
        """Say what a request needs that no worker serves; "" if a worker serves it, or this is not known."""
        if not self._is_caught_up():
            return ""
        with self._lock:
            needs, serving = self._expecting.needs(request), self._serving(self._plans.plan, self._clock_ms())
        return "" if any(variant in serving for variant in needs) else f"no worker serves {' or '.join(needs)}"

    def _serving(self, plan: Plan | None, now_ms: int) -> list[str]:
        if plan is not None:
            self._fleet.obey(plan)
        return [name for name in self._catalog.served if self._fleet.serving([name], now_ms)]

    def first(self, request_id: str) -> None:
        """Note the first estimate for a request; its error is measured once the request has ended."""
        estimate = self.of(request_id)
        if estimate is not None:
            with self._lock:
                self._expecting.on_estimate_sent(request_id, estimate, self._clock_ms())
