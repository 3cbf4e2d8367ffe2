"""What the topics told the planner of late, in memory: arrivals, hardness and classes, results and confidences."""

import sys
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from planner.catalog.parse import Catalog
from planner.observation.deferral import SeenDeferral, seen_deferral
from planner.observation.observation import (
    COUNTS_S,
    DEMAND_MS,
    PROMPTS,
    SCORES,
    SERVED_MS,
    Served,
    class_histograms,
    class_shares,
    counts_per_second,
    demand_rps,
    hardness_shares,
)
from planner.serving.placement import OVERLOADED, QUOTA, SHED
from schemas.messages import ClassifiedRequest, Plan, Result, Status, Step

MOST_ARRIVALS = 200_000  # remembered, about 3,000 a second; 0.25 KB each, 50 MB in all (measured)
MOST_KINDS = 1000  # of classes, by strategy


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
