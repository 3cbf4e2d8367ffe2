"""Observes components: demand, from classified requests, and holdings, from heartbeats.

`ComponentLog` counts; `ObservedComponents` is what an observation has of it, as JSON values. The counts outlast a
planner: `Plan.residency.memory` has them as of a moment; a log that begins takes them over and adds what came later.
"""

import json
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.catalog.options import AS_IT_IS, resolve_options
from planner.catalog.validate import is_amount
from planner.components.component import ComponentRequest, Tier
from planner.components.demand.cohesion import Cohesion
from planner.components.demand.counts import ComponentDemand
from planner.components.from_catalog import requested
from planner.components.holdings import LOCAL, Holdings
from planner.observation.workers import ReceivedHeartbeat
from planner.serving.routing.composing import Composed, is_composed
from schemas.messages import GenerateOptions, Plan, WorkerComponents

RATE_MS: Final = 300_000  # over which the requests of a variant are counted as its rate
MIN_WATCHED_MS: Final = 60_000  # what a log that has just begun counts as watched: it reads the last minute
MAX_WAITING: Final = 20_000  # requests that are not counted yet: while a planner stands by, only the newest matter
MAX_COMBINATIONS: Final = 10_000  # of options that are remembered: tenants choose them
DEMAND: Final = "demand"  # in the memory of a residency
AT_MS: Final = "at_ms"

Counts = dict[str, tuple[float, float]]  # id -> requests, halved with time, as of the last one; when that was (ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDemand:
    """The demand on one variant that lists bases."""

    rps: float  # requests a second over RATE_MS
    requests: Counts = field(default_factory=dict)  # by component
    fused: Counts = field(default_factory=dict)  # by fused id: a base with adapters of these weights
    pairs: dict[str, Counts] = field(default_factory=dict)  # base -> what was asked for with it
    returning: dict[str, float] = field(default_factory=dict)  # component -> probability that its last users want it

    def counted(self) -> ComponentDemand:
        """Return the counts as `planner.components` asks them."""
        demand = ComponentDemand()
        demand.restore({"requests": self.requests, "fused": self.fused, "pairs": self.pairs})
        return demand


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedComponents:
    """Demand for components, and what live workers report of theirs."""

    demand: dict[str, ObservedDemand] = field(default_factory=dict)  # by variant
    workers: dict[str, WorkerComponents] = field(default_factory=dict)  # live ones that report any

    def holdings(self) -> Holdings:
        """Return who holds what in which tier."""
        return holdings_of(self.workers)


class _Request(NamedTuple):
    variant: str
    components: ComponentRequest
    user: str
    at_ms: int


class ComponentLog:
    """Counts what requests ask for. Feeding and asking may be two threads': a request waits until it is asked for."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.is_used = any(variant.bases for variant in catalog.served.values())
        self._needs: dict[GenerateOptions, tuple[tuple[str, ComponentRequest], ...]] = {}
        self.clear()

    def clear(self) -> None:
        """A reader begins again with its window; the counts are those of the plan in force."""
        self._waiting: deque[_Request] = deque(maxlen=MAX_WAITING)
        self._demand: defaultdict[str, ComponentDemand] = defaultdict(ComponentDemand)
        self._cohesion: defaultdict[str, Cohesion] = defaultdict(Cohesion)
        self._lately: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=MAX_WAITING))
        self._first_ms = math.inf  # of all requests
        self._counted_ms = 0  # up to which the memory has counted
        self._has_begun = False
        self.ignored = 0  # memories that could not be read

    def on_request(self, options: GenerateOptions, user: str, at_ms: int) -> None:
        """Take in a classified request; `user`: whose next request may be a variant of this one."""
        if self.is_used:
            for variant, components in self._needed(options):
                self.on_needed(variant, components, user, at_ms)

    def on_needed(self, variant: str, components: ComponentRequest, user: str, at_ms: int) -> None:
        """Take in a request whose components on a variant are known."""
        self._waiting.append(_Request(variant, components, user, at_ms))

    def observed(
        self, heartbeats: Mapping[str, ReceivedHeartbeat], live: Iterable[str], plan: Plan | None, now_ms: int
    ) -> ObservedComponents | None:
        """Return the observed components; None if no variant of the catalog lists bases. `plan`: the one in force.

        A report of impossible figures counts for none: no worker's heartbeat may keep the planner from planning.
        """
        if not self.is_used:
            return None
        if not self._has_begun:
            self._begin(plan)
        while self._waiting:
            self._count(self._waiting.popleft())
        received = ((worker_id, heartbeats.get(worker_id)) for worker_id in live)
        reports = {worker_id: each.heartbeat.components for worker_id, each in received if each is not None}
        return ObservedComponents(
            demand={variant: self._observed_demand(variant, now_ms) for variant in sorted(self._demand)},
            workers={w: report for w, report in reports.items() if report is not None and _is_possible(report)},
        )

    def _needed(self, options: GenerateOptions) -> tuple[tuple[str, ComponentRequest], ...]:
        """The variant that a request with these options goes to, and what it needs there.

        One that names nothing may go to each level that lists bases, and needs the default one there.
        """
        found = self._needs.get(options)
        if found is None:
            if len(self._needs) >= MAX_COMBINATIONS:
                self._needs.clear()
            if is_composed(options, self._catalog):
                names = Composed(options, self._catalog).variants[:1]
            else:
                names, options = tuple(self._catalog.variants), AS_IT_IS
            variants = [variant for name in names if (variant := self._catalog.served[name]).bases]
            found = self._needs[options] = tuple((each.name, _resolved(options, each)) for each in variants)
        return found

    def _begin(self, plan: Plan | None) -> None:
        """Take over what an earlier planner counted."""
        self._has_begun = True
        if plan is None or plan.residency is None:
            return
        try:
            self._restore(json.loads(plan.residency.memory))
        except (ValueError, TypeError, KeyError, AttributeError):  # of another release
            self.ignored += 1
            self._demand.clear()
            self._counted_ms = 0

    def _restore(self, memory: Mapping[str, Any]) -> None:
        for variant, counts in memory[DEMAND].items():
            if variant in self._catalog.served:
                self._demand[variant].restore(counts)
        self._counted_ms = int(memory[AT_MS])

    def _count(self, request: _Request) -> None:
        if request.at_ms > self._counted_ms:
            self._demand[request.variant].on_request(request.components, request.at_ms)
        self._cohesion[request.variant].on_request(request.user, request.components.ids, request.at_ms)
        self._lately[request.variant].append(request.at_ms)
        self._first_ms = min(self._first_ms, request.at_ms)

    def _observed_demand(self, variant: str, now_ms: int) -> ObservedDemand:
        lately = self._lately[variant]
        while lately and lately[0] <= now_ms - RATE_MS:
            lately.popleft()
        watched_ms = min(RATE_MS, max(MIN_WATCHED_MS, now_ms - self._first_ms))
        counts = self._demand[variant].snapshot()
        cohesion = self._cohesion.get(variant)
        likely = {id_: cohesion.probability(id_, now_ms) for id_ in counts["requests"]} if cohesion else {}
        return ObservedDemand(
            rps=1000 * len(lately) / watched_ms,
            requests=counts["requests"],
            fused=counts["fused"],
            pairs=counts["pairs"],
            returning={id_: share for id_, share in likely.items() if share > 0},
        )


def holdings_of(reports: Mapping[str, WorkerComponents]) -> Holdings:
    """Return who holds what, by workers' reports; tiers of another release are left out."""
    return Holdings({worker: resident_by_tier(report) for worker, report in reports.items()})


def resident_by_tier(report: WorkerComponents) -> dict[Tier, frozenset[str]]:
    """Return what a worker reports to hold, by local tier."""
    return {tier: frozenset(report.held[tier.label]) for tier in LOCAL if tier.label in report.held}


def _resolved(options: GenerateOptions, variant: Variant) -> ComponentRequest:
    return requested(resolve_options(options, variant).components)


def _is_possible(report: WorkerComponents) -> bool:
    figures = (report.held_bytes, report.budget_bytes, report.hits, report.moved_bytes)
    return all(is_amount(amount) for table in figures for amount in table.values())
