"""Requests of a trace that ask for more than an image: options, a quality, a tier, a deadline of their own."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.catalog.options import AS_IT_IS, ResolvedOptions, begins_at, resolve_options
from planner.control.shedding import ORDINARY
from planner.serving.admission.quotas import Quota
from planner.serving.features import active
from planner.serving.routing.cascades import may_escalate
from planner.serving.routing.placement import Placement
from replay.simulation.job import Draws, Job
from replay.simulation.results.run_metrics import NO_PARTS, RunMetrics
from replay.simulation.results.timeline import Timeline
from replay.traces.trace import Overrides, Trace
from schemas.messages import TIERS

INTERACTIVE, BATCH = "interactive", "batch"
ANY_QUALITY = Overrides().quality
NO_QUOTAS: Mapping[str, Quota] = MappingProxyType({})


class Asked(NamedTuple):
    """A request's own; what is None there is as the run has it."""

    wish: Overrides
    slack_ms: float | None


class OverriddenJob(Job):
    """A job whose request asks for something. Its images count as one: one confidence, one quality."""

    __slots__ = ("_catalog", "images", "judged", "limit_ms", "options", "quality", "tenant", "tier")

    def __init__(self, job: Job, asked: Asked, catalog: Catalog) -> None:
        deadline_ms = job.deadline_ms if asked.slack_ms is None else job.arrived_ms + asked.slack_ms
        super().__init__(job.number, job.request_id, job.arrived_ms, deadline_ms, job.draws, job.row)
        self._catalog = catalog
        self.options, self.quality = asked.wish.options, asked.wish.quality
        self.tier, self.tenant, self.limit_ms = asked.wish.tier, asked.wish.tenant, asked.slack_ms
        self.images = asked.wish.options.n
        self.judged = self.images * may_escalate(self, catalog)

    def placed(self, placement: Placement, share: float, now_ms: float) -> None:
        """Go to the level of a placement, and have its options there."""
        super().placed(placement, share, now_ms)
        how = placement.options._replace(n=1, overridden=(), refine_from_step=0)
        self.how = None if how == resolve_options(AS_IT_IS, self._catalog.level(placement.variant)) else how

    def begin_at(self, step: int, own_step: int) -> None:
        """Begin at this step of the steps that its options ask for."""
        super().begin_at(step, own_step)
        if self.how is not None:
            self.how = self.how._replace(refine_from_step=step)

    def on(self, variant: Variant, step: int) -> tuple[ResolvedOptions | None, int]:
        """Return the request's options on a variant, None where they are its defaults, and the step it begins at."""
        how = resolve_options(self.options, variant)
        sizes = self.sizes(self._catalog.level(self.variant) if self.variant else variant)
        begins = begins_at(step, variant, how, sizes)
        return self.as_resolved(variant, how._replace(refine_from_step=begins), step)

    def sizes(self, variant: Variant) -> Sequence[tuple[int, int]]:
        """Return the image sizes that the variant resolves the options to."""
        how = resolve_options(self.options, variant)
        return [(how.width, how.height)] * how.n

    def as_resolved(self, variant: Variant, how: ResolvedOptions, step: int) -> tuple[ResolvedOptions | None, int]:
        """Return resolved options without the number of images, None where they are defaults, and the step."""
        step = step if how.refine_from_step else 0
        how = how._replace(n=1, overridden=())
        return None if how == resolve_options(AS_IT_IS, variant, step) else how, step


class RequestedOverrides:
    """The overrides that the requests of a trace ask for, by the requests' numbers."""

    def __init__(self, trace: Trace, catalog: Catalog, *, has_tenants: bool, recorded: Trace | None = None) -> None:
        """`recorded`: the trace that this one is drawn from, whose tiers and tenants count; None: it is itself."""
        self._trace, self._catalog, self._has_tenants = trace, catalog, has_tenants
        self._recorded = recorded or trace
        self._is_plain = [not has_tenants and _is_plain(wish) for wish in trace.wishes]

    def job(
        self, number: int, request_id: str, arrived_ms: float, deadline_ms: float | None, draws: Draws, row: int
    ) -> Job:
        """The job of a request; of one that asks for nothing a plain one."""
        job = Job(number, request_id, arrived_ms, deadline_ms, draws, row)
        wish, slack_ms = self._trace.wish[number], float(self._trace.slack_ms[number])
        if self._is_plain[wish] and slack_ms != slack_ms:
            return job
        return OverriddenJob(
            job, Asked(self._trace.wishes[wish], None if slack_ms != slack_ms else slack_ms), self._catalog
        )

    def drawn(self, trace: Trace) -> "RequestedOverrides":
        """Return the overrides of a trace that is drawn from this one; each tier and tenant of this one counts."""
        return RequestedOverrides(trace, self._catalog, has_tenants=self._has_tenants, recorded=self._trace)

    def by_tier(self) -> dict[str, int]:
        """Tier -> its requests, in the order in which tiers are served."""
        counts = self._counts(lambda wish: wish.tier)
        return {tier: counts[tier] for tier in TIERS if tier in counts}

    def by_tenant(self) -> dict[str, int]:
        """Tenant -> its requests, by name; {}: their rights are not simulated."""
        return dict(sorted(self._counts(lambda wish: wish.tenant).items())) if self._has_tenants else {}

    def _counts(self, what: Callable[[Overrides], str]) -> dict[str, int]:
        counts = _counts(self._trace, what)
        return {name: counts[name] for name in _counts(self._recorded, what)}

    def is_batch(self) -> np.ndarray:
        """Bool [n]: whose turn comes when workers have nothing waiting."""
        are = np.array([wish.tier == BATCH for wish in self._trace.wishes])
        return np.asarray(are[self._trace.wish])


def requested_overrides(
    trace: Trace, catalog: Catalog, quotas: Mapping[str, Quota] = NO_QUOTAS, features: Sequence[str] = ()
) -> RequestedOverrides | None:
    """Return the overrides of a trace; None without any that is simulated.

    Tenants count if they are several, have quotas, or an active feature has checks, which may ask for them.
    """
    asks = any(not _is_plain(trace.wishes[row]) for row in np.unique(trace.wish).tolist())
    tenants = _counts(trace, lambda wish: wish.tenant).keys()
    has_tenants = len(tenants) > 1 or bool(tenants & quotas.keys()) or any(each.checks for each in active(features))
    if not asks and not has_tenants and np.isnan(trace.slack_ms).all():
        return None
    return RequestedOverrides(trace, catalog, has_tenants=has_tenants)


def metrics_for(
    wishes: RequestedOverrides | None, slo_ms: float, arrivals_ms: np.ndarray, end_ms: float = 0.0
) -> RunMetrics:  # fmt: skip
    """An empty one for a run of these requests. `end_ms`: as `Timeline` has it."""
    tiers, tenants = (wishes.by_tier(), wishes.by_tenant()) if wishes else (NO_PARTS, NO_PARTS)
    return RunMetrics(slo_ms, Timeline(arrivals_ms, end_ms), tiers, tenants)


def _counts(trace: Trace, what: Callable[[Overrides], str]) -> Counter[str]:
    """Count requests by a property of their overrides."""
    counts: Counter[str] = Counter()
    for wish, count in zip(trace.wishes, np.bincount(trace.wish).tolist(), strict=False):
        counts[what(wish)] += count
    return +counts


def _is_plain(wish: Overrides) -> bool:
    return wish.options == AS_IT_IS and (wish.quality, wish.tier) == (ANY_QUALITY, ORDINARY)
