"""The router's decision on a request: a placement on a level, its rejection, or nothing.

`RoutingLogic.route` holds the order of all checks. The live role (`agents/router/role.py`) and the simulator's
(`replay/simulation/roles/routing/router.py`) call it; they only read and write.

    options in range       else InvalidRequest is raised
    no result, no job yet  else Ignored
    admitted by the plan   else REJECTED, shed; a tenant that floods has the smaller part of what is admitted
    each feature's check   else REJECTED, by the feature (`planner/serving/features.py`)
    room on its whole way  else a cheaper level, or REJECTED, overloaded; not where others fill the backlog. A level
                           that the request names gives way to the nearest one, which `overridden` says; unless strict
    quality promised       else a level that promises it by the next one's way, or REJECTED, unhonoured, with the best
    components honoured    else REJECTED, unhonoured: never left out, by no fallback; so are all options of a strict one
    a worker in time       else REJECTED, starting, where the plan scales a level from zero and it would come too late
    before its deadline    else a cheaper level, a dearer one, one whose workers are on their way, or EXPIRED, deadline;
                           a soft one is missed rather than EXPIRED, on the cheapest level that has room
    within its quota       else REJECTED, quota or overloaded; last, so that no rejection costs a token
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple, Protocol

from planner.catalog.entries import deferred_share, expected_steps, reuse_step, run_ms, variant_of
from planner.catalog.model import Catalog
from planner.catalog.option_limits import BATCH_TIER, MAX_IMAGES, QUALITIES, check_options
from planner.catalog.options import AS_IT_IS, ResolvedOptions, resolve_options, resolved_ms
from planner.serving.deadlines import can_meet, predicted_finish_ms
from planner.serving.decisions import (
    DEADLINE,
    ENDED,
    IN_FLIGHT,
    OVERLOADED,
    SHED,
    STARTING,
    UNHONOURED,
    Ignored,
    Rejection,
)
from planner.serving.requests import ClassifiedValues, RequestValues, Work
from planner.serving.routing.cascades import cascade_of, judging_ms, may_escalate
from planner.serving.routing.composing import ANYWHERE, Fit, Fits
from planner.serving.routing.loads import Loads, begins_ms, shared_wait_ms
from planner.serving.routing.placement import (
    CHEAPER,
    DEARER,
    Choice,
    Placement,
    choices_of,
    only_choice,
    route_of,
    sample,
)
from planner.serving.routing.promises import Promises
from planner.serving.routing.soft_deadline import Deadlines, Due
from schemas.ids import draw
from schemas.messages import TIERS, Admission, GenerateOptions, Plan, Status

SALT = "admission"  # never the plan's version: under an equal share a request has an equal answer from every router
ANY_BACKLOG_MS = sys.float_info.max  # infinite is the wait for a level without workers
INTERACTIVE, ANY_QUALITY = "interactive", "auto"
NONE: Container[str] = frozenset()


class TenantRights(Protocol):
    """Protocol of tenants' rights; `planner.serving.admission.tenants.Rights`, or that class behind a lock."""

    def is_open(self, request_id: str, now_ms: int) -> bool:
        """Whether the request was admitted recently and has not ended."""

    def admission_of(self, admission: Admission | None, tier: str, tenant: str, now_ms: float) -> Admission | None:
        """Return the share of the tenant's requests that the plan admits; the tenant has sent one more."""

    def is_crowded_out(self, tenant: str, allowed_ms: float) -> bool:
        """Whether the backlog is that of other tenants."""

    def refuse(self, work: Work, allowed_ms: float, now_ms: int) -> Rejection | None:
        """Why the tenant may not have this work now; None: it is open, and its tokens are taken."""

    def ended(self, request_id: str) -> None:
        """The work of the request is open no more."""


class Case(NamedTuple):
    """A request that is to be decided on, and what it is decided by."""

    classified: ClassifiedValues
    plan: Plan
    loads: Loads
    now_ms: float

    @property
    def request(self) -> RequestValues:
        """The client's request."""
        return self.classified.request


RouterCheck = Callable[[Case], Rejection | Ignored | None]  # None: the request passes; it keeps nothing of the case


class BacklogLimits(NamedTuple):
    """The longest waits before a level up to which requests are admitted to it, by tier."""

    interactive_ms: float
    others_ms: float

    def of(self, tier: str) -> float:
        """The limit of a tier."""
        return self.interactive_ms if tier == INTERACTIVE else self.others_ms


NO_LIMITS = BacklogLimits(ANY_BACKLOG_MS, ANY_BACKLOG_MS)


def is_admitted(admission: Admission | None, request_id: str, tier: str) -> bool:
    """Whether a plan lets a request in: by the request's own dice: a higher share lets more in, never others."""
    share = admission.shares.get(tier, 1.0) if admission else 1.0
    return share >= 1 or draw(request_id, SALT) < share


def backlog_limits(max_backlog_s: float, interactive_headroom: float) -> BacklogLimits:
    """`interactive_headroom`: share of `max_backlog_s` that only interactive requests may use."""
    return BacklogLimits(1000 * max_backlog_s, 1000 * max_backlog_s * (1 - interactive_headroom))


class Resolved(NamedTuple):
    """How a level serves a request's options, and the predicted time of the job."""

    options: ResolvedOptions
    run_ms: float


class _Level:
    """The catalog's facts of a level, looked up once for all requests."""

    def __init__(self, name: str, catalog: Catalog) -> None:
        self.variant = catalog.level(variant_of(name))
        self.name = self.variant.name
        self.first_step = reuse_step(name)  # of "heavy~k4": 4, with a similar past image
        self.cheaper = [variant.name for variant in catalog.cheaper_than(self.name)]
        self.dearer = [variant.name for variant in catalog.dearer_than(self.name)]

    def resolve(self, options: GenerateOptions) -> Resolved:
        settled = resolve_options(options, self.variant)
        if self.first_step:  # a request that sets the steps skips the same share of them
            settled = settled._replace(refine_from_step=self.first_step * settled.steps // self.variant.steps)
        return Resolved(settled, resolved_ms(self.variant, settled))


class _Levels(dict[str, _Level]):
    def __init__(self, catalog: Catalog) -> None:
        super().__init__()
        self._catalog = catalog

    def __missing__(self, name: str) -> _Level:
        self[name] = _Level(name, self._catalog)
        return self[name]


class _PlanFacts:
    """The facts of a plan that hold for all requests, computed once per plan."""

    def __init__(self, plan: Plan, catalog: Catalog, levels: _Levels) -> None:
        self.plan = plan
        self._only = only_choice(plan)
        self._choices: dict[int, list[Choice]] = {}  # by the id of a route of the plan
        self.workers = Counter(plan.allocation.values())
        self.allocated = frozenset(self.workers)
        self._catalog = catalog
        self._judging_ms: dict[str, float] = {}
        self._onward: dict[str, tuple[float, str]] = {}
        self.plain = _Costs(AS_IT_IS, 1, levels, self)  # of most requests

    def choose(self, classified: ClassifiedValues) -> Choice:
        """Choose as `choose_level` does; the choices of a route are sorted once."""
        hardness = classified.hardness
        if self._only is not None and 0.0 <= hardness <= 1.0:
            return self._only
        route = route_of(self.plan, hardness, classified.classes)
        choices = self._choices.get(id(route))
        if choices is None:
            choices = self._choices[id(route)] = choices_of(route)
        return sample(choices, classified.request.request_id)

    def with_workers(self, levels: Sequence[str]) -> Sequence[str]:
        """Return the levels to which the plan gives workers; all of them where it gives none to any variant.

        A worker that still serves another variant is about to leave it, and with it the jobs that it has not begun.
        """
        return [level for level in levels if level in self.allocated] if self.allocated else levels

    def expected_ms(self, level: str, resolved: "Resolved") -> float:
        """Mean run time on a level: where the plan says how often a stored latent is found, a miss runs in full."""
        step = resolved.options.refine_from_step
        if not step or self.plan.reuse is None:
            return resolved.run_ms
        steps, hit_rate = resolved.options.steps, self.plan.reuse.hits.get(level, 0.0)
        return resolved.run_ms * expected_steps(hit_rate, step, steps) / (steps - step)

    def judging_ms(self, level: str) -> float:
        found = self._judging_ms.get(level)
        if found is None:
            found = self._judging_ms[level] = judging_ms(self.plan, level, self._catalog)
        return found

    def onward(self, level: str) -> tuple[float, str]:
        """Chance that an image of a level is escalated, by the catalog's curve, and the variant that it goes on to."""
        found = self._onward.get(level)
        if found is None:
            cascade = cascade_of(self.plan, level)
            found = self._onward[level] = 0.0, ""
            if cascade is not None:
                judge = self._catalog.discriminator(cascade.discriminator)
                chance = deferred_share(judge, cascade.threshold)
                found = self._onward[level] = chance, variant_of(cascade.next_level)
        return found


class _Costs:
    """The cost of requests with these options on each level; `judged` of their images are scored."""

    def __init__(self, options: GenerateOptions, judged: int, levels: _Levels, facts: _PlanFacts) -> None:
        self._options, self._judged, self._levels, self._facts = options, judged, levels, facts
        self._resolved: dict[str, Resolved] = {}
        self._parts: dict[str, tuple[float, float]] = {}  # level -> run time as profiled, time to judge; ms
        self._placements: dict[tuple[str, float, str], Placement] = {}

    def _resolve(self, level: str) -> Resolved:
        if level not in self._resolved:
            found = self._levels[level].resolve(self._options)
            self._resolved[level] = Resolved(found.options, self._facts.expected_ms(level, found))
        return self._resolved[level]

    def begins_ms(self, level: str, wait_ms: float, loads: Loads) -> float:
        """Time until a worker of the level is free, after `wait_ms`, and holds the request's components, in ms."""
        return begins_ms(self._levels[level].variant, self._resolve(level).options.components, wait_ms, loads)

    def total_ms(self, level: str, loads: Loads) -> float:
        """Run time of the job as its workers serve it, and the time to judge its images."""
        parts = self._parts.get(level)
        if parts is None:
            parts = self._resolve(level).run_ms, self._judged * self._facts.judging_ms(level)
            self._parts[level] = parts
        run_ms, judged_ms = parts
        return loads.slowness(self._levels[level].name) * run_ms + judged_ms

    def finish_ms(self, level: str, wait_ms: float, loads: Loads, now_ms: float) -> float:
        """When the images are judged, if a worker of the level is free after `wait_ms`; on the clock of `now_ms`."""
        return predicted_finish_ms(now_ms, self.begins_ms(level, wait_ms, loads), self.total_ms(level, loads))

    def way_ms(self, level: str, wait_ms: float, due: Due, loads: Loads, now_ms: float) -> float:
        """Work that waits on the whole way: before the level, and before the next as often as images are escalated.

        Where that one would end after `due` the draft is the answer, so that nothing waits for longer beyond the level
        itself, and where no worker serves the next nothing is known.
        """
        chance, after = self._facts.onward(level) if self._judged else (0.0, "")
        if chance <= 0:
            return wait_ms
        after_ms = loads.wait_ms(after)
        if math.isinf(after_ms) or not due.allows(now_ms + after_ms, after_ms):
            return wait_ms
        way_ms = wait_ms + chance * after_ms
        return way_ms if due.at_ms is None else max(wait_ms, min(way_ms, due.at_ms - now_ms))

    def has_room(
        self, level: str, wait_ms: float, due: Due, loads: Loads, now_ms: float, limit_ms: float
    ) -> bool:  # fmt: skip
        """Whether `way_ms` is within the limit, which needs no look at the next level where a request is due sooner."""
        if wait_ms > limit_ms:
            return False
        if due.at_ms is not None and due.at_ms - now_ms <= limit_ms:
            return True
        return self.way_ms(level, wait_ms, due, loads, now_ms) <= limit_ms

    def placement(self, level: str, probability: float, fallback: str = "") -> Placement:
        """The placement on a level."""
        key = level, probability, fallback
        placement = self._placements.get(key)
        if placement is None:
            options, run = self._resolve(level)
            placement = Placement(level, self._levels[level].name, options, run, probability, fallback)
            self._placements[key] = placement
        return placement


class RoutingLogic:
    """Decides on requests, one by one. Knows no clock, no topic and no policy; obeys any plan.

    One owner: `route` is not called by two threads at a time.
    """

    def __init__(
        self,
        catalog: Catalog,
        limits: BacklogLimits,
        rights: TenantRights | None = None,
        ended: Container[str] = NONE,
        start_ms: float = 0.0,
        slo_ms: float = 0.0,
        checks: Sequence[RouterCheck] = (),
    ) -> None:
        """`rights`: without them tenants have no quotas and no shares. `ended`: ids of the requests that have a result.

        `start_ms`: until a worker that is started anew may load a variant, where a plan scales the fleet.
        `slo_ms`: see `Deadlines`. `checks`: of features, asked before a request is placed.
        """
        self._start_ms = start_ms
        self._catalog, self._deadlines = catalog, Deadlines(catalog, slo_ms)
        self._limits = limits
        self._rights = rights
        self._ended = ended
        self._levels = _Levels(catalog)
        self._facts: _PlanFacts | None = None
        self._fits = Fits(catalog)
        self._promises = Promises(catalog)
        self._before: tuple[RouterCheck, ...] = (self._in_range, self._ignored, self._shed, *checks)

    def route(
        self, classified: ClassifiedValues, plan: Plan, loads: Loads, now_ms: float
    ) -> Placement | Rejection | Ignored:
        """Decide on a classified request under the plan in force. A placement opens the request: see `abandon`.

        If no worker serves its level or a cheaper one, or none of them is in time, it goes to a dearer one that has
        room and time for it. If no worker serves any of these it is placed nevertheless, and waits for a worker or
        its deadline. No level stands in for another whose variant the plan gives no worker.

        Raises:
            InvalidRequest: an option is out of range or misspelt.
            InvalidPlan: the plan has no route for the request.
        """
        case = Case(classified, plan, loads, now_ms)
        for check in self._before:
            if (decision := check(case)) is not None:
                return decision
        return self._admitted(classified, plan, loads, now_ms)

    def abandon(self, request_id: str) -> None:
        """The request that was placed gets no job, or has ended: its tenant has its share again."""
        if self._rights is not None:
            self._rights.ended(request_id)

    def reroute(
        self, classified: ClassifiedValues, plan: Plan, loads: Loads, now_ms: float, waited_ms: float = 0.0
    ) -> Placement | Rejection:
        """Decide anew on a request that was admitted before: no backlog is too long, nothing is shed or charged.

        `waited_ms`: for a worker of what it needs. Beyond the backlog's limit it goes to the nearest level that a
        worker serves, which `overridden` says, or is REJECTED where it is strict or names components. Batch requests
        wait as long as it takes.
        """
        is_over = classified.request.tier != BATCH_TIER and waited_ms > self._limits.of(classified.request.tier)
        return self._placed(classified, plan, loads, now_ms, ANY_BACKLOG_MS, waited_ms if is_over else 0.0)

    def _facts_of(self, plan: Plan) -> _PlanFacts:
        if self._facts is None or self._facts.plan is not plan:
            self._facts = _PlanFacts(plan, self._catalog, self._levels)
        return self._facts

    @staticmethod
    def _in_range(case: Case) -> None:
        """Raise InvalidRequest for a wrong option; the writer of the record may not have checked it."""
        request = case.classified.request
        if request.quality not in QUALITIES or request.tier not in TIERS or request.options is not AS_IT_IS:
            check_options(request, MAX_IMAGES)

    def _ignored(self, case: Case) -> Ignored | None:
        request_id = case.classified.request.request_id
        if request_id in self._ended:
            self.abandon(request_id)
            return ENDED
        if self._rights is not None and self._rights.is_open(request_id, int(case.now_ms)):
            return IN_FLIGHT
        return None

    def _shed(self, case: Case) -> Rejection | None:
        request, admission = case.classified.request, case.plan.admission
        if self._rights is not None:
            admission = self._rights.admission_of(admission, request.tier, request.tenant, case.now_ms)
        if admission is None or is_admitted(admission, request.request_id, request.tier):
            return None
        return Rejection(Status.REJECTED, SHED, admission.reason, admission.retry_after_ms)

    def _admitted(
        self, classified: ClassifiedValues, plan: Plan, loads: Loads, now_ms: float
    ) -> Placement | Rejection | Ignored:
        request = classified.request
        placed = self._placed(classified, plan, loads, now_ms, self._limits.of(request.tier))
        if isinstance(placed, Rejection):
            if placed.code != OVERLOADED or not self._is_crowded_out(request, loads):
                return placed
            placed = self._placed(classified, plan, loads, now_ms, ANY_BACKLOG_MS)
            if isinstance(placed, Rejection):
                return placed
        return self._beyond_rights(request, placed, loads, now_ms) or self._ended_meanwhile(request) or placed

    def _beyond_rights(
        self, request: RequestValues, placed: Placement, loads: Loads, now_ms: float
    ) -> Rejection | None:
        if self._rights is None:
            return None
        work = Work(request.request_id, request.tenant, request.options.n, placed.run_ms)
        return self._rights.refuse(work, self._allowed_ms(loads), int(now_ms))

    def _ended_meanwhile(self, request: RequestValues) -> Ignored | None:
        """A result that came before the request was open: nothing else would close it."""
        if request.request_id not in self._ended:
            return None
        self.abandon(request.request_id)
        return ENDED

    def _is_crowded_out(self, request: RequestValues, loads: Loads) -> bool:
        """Whether others make up the backlog, so that it is no reason to reject a tenant below its share."""
        return self._rights is not None and self._rights.is_crowded_out(request.tenant, self._allowed_ms(loads))

    def _allowed_ms(self, loads: Loads) -> float:
        """Work that may be open in all."""
        return self._limits.interactive_ms * max(1, loads.serving())

    def _placed(
        self, classified: ClassifiedValues, plan: Plan, loads: Loads, now_ms: float, limit_ms: float, over_ms: float = 0
    ) -> Placement | Rejection:
        """The requested level, or another one where the backlog or the deadline asks for it.

        `over_ms`: that it has waited for a worker of what it needs, for longer than it may; 0: it may wait.
        """
        request, facts = classified.request, self._facts_of(plan)
        options, fit = request.options, None
        if request.quality == ANY_QUALITY and (options is AS_IT_IS or options == AS_IT_IS):
            costs, requested = facts.plain, facts.choose(classified)
        else:
            fit = self._fits.of(options, request.quality)
            if fit.fault is not None:
                return Rejection(Status.REJECTED, UNHONOURED, fit.fault.reason, param=fit.fault.param)
            costs, requested = self._costs(request, facts), self._requested(classified, fit, facts)
        if options.quality_at_least is not None:
            among = options.model or (fit.level if fit else "")
            asked = [among] if among else (fit.variants if fit else ()) or tuple(self._catalog.variants)
            promising = self._promising(classified, asked, facts)
            if not promising:
                return self._promises.refusal(plan, classified, asked)
            fit = (fit or ANYWHERE)._replace(variants=promising, is_strict=True)
        level = self._promised(requested.level, classified, fit, facts)
        probability = requested.probability if level == requested.level else 0.0
        due = self._deadlines.of(classified)
        wait_ms = loads.wait_ms(self._levels[level].name)
        in_time = due.at_ms is None or due.allows(costs.finish_ms(level, wait_ms, loads, now_ms), wait_ms)
        if in_time and costs.has_room(level, wait_ms, due, loads, now_ms, limit_ms):
            return _placement(costs, level, probability, fit)
        other = self._other_level(_Search(level, fit, due, facts, costs, loads, now_ms, limit_ms, over_ms))
        if isinstance(other, Rejection):
            return other
        if other == level:
            late = self._too_late(level, request, plan, costs, loads, now_ms) if math.isinf(wait_ms) else None
            return late or _placement(costs, level, probability, fit)
        return _placement(costs, other, 0.0, fit, CHEAPER if other in self._levels[level].cheaper else DEARER)

    def _promising(
        self, classified: ClassifiedValues, levels: Sequence[str], facts: _PlanFacts
    ) -> tuple[str, ...]:  # fmt: skip
        """Return those of the levels that promise the stated quality and have workers, the cheapest first."""
        held = [level for level in levels if self._promises.hold(level, facts.plan, classified)]
        kept = [level for level in held if self._promises.first(level, facts.plan, classified) == level] or held
        return tuple(sorted(facts.with_workers(kept) or kept, key=lambda each: run_ms(self._levels[each].variant, 1)))

    def _promised(self, level: str, classified: ClassifiedValues, fit: Fit | None, facts: _PlanFacts) -> str:
        """Return the first level of a request's way of which an image may be kept; without a promise, `level`."""
        if classified.request.options.quality_at_least is None and not facts.plan.quality_at_least:
            return level
        first = self._promises.first(level, facts.plan, classified)
        if classified.request.options.quality_at_least is None or fit is None or fit.level:
            return first
        if variant_of(first) in fit.variants:
            return first
        dearer = [each for each in self._levels[first].dearer if each in fit.variants]
        return dearer[0] if dearer else fit.variants[-1]

    def _too_late(
        self, level: str, request: RequestValues, plan: Plan, costs: _Costs, loads: Loads, now_ms: float
    ) -> Rejection | None:
        """Reject a request for a level without a worker, where one that starts for it comes after its deadline.

        Only where the plan scales the fleet, so that one does start: a rejected request counts as demand.
        """
        if plan.scale is None or request.deadline_ms is None:
            return None
        start_ms = self._levels[level].variant.load_ms + (0.0 if plan.scale.warm else self._start_ms)
        if can_meet(request.deadline_ms, predicted_finish_ms(now_ms, start_ms, costs.total_ms(level, loads))):
            return None
        reason = f"{level} has no live worker, and one takes {start_ms / 1000:.1f} s to start: send again then"
        return Rejection(Status.REJECTED, STARTING, reason, math.ceil(start_ms))

    def _costs(self, request: RequestValues, facts: _PlanFacts) -> _Costs:
        judged = request.options.n if may_escalate(request, self._catalog) else 0
        return _Costs(request.options, judged, self._levels, facts)

    def _requested(self, classified: ClassifiedValues, fit: Fit, facts: _PlanFacts) -> Choice:
        """The level that the request asks for, else one that honours its options, else the plan's draw.

        A quality whose level the plan gives no worker gets the nearest one that has, unless the request is strict. A
        probability of 0 says that the plan's shares alone did not decide.
        """
        drawn = choices_of(route_of(facts.plan, classified.hardness, classified.classes)) if fit.variants else ()
        level = fit.choose(drawn, facts.allocated, classified.request.request_id)
        if not level:
            return facts.choose(classified)
        if fit.quality and not (fit.is_strict or fit.is_firm) and level not in facts.allocated:
            nearest = facts.with_workers((level, *self._levels[level].cheaper, *self._levels[level].dearer))
            other = level if fit.is_composed else [*nearest, level][0]
            level = next((each for each in nearest if each in fit.variants), other)
        return Choice(level if not fit.is_composed else variant_of(level), 0.0)

    def _other_level(self, search: "_Search") -> str | Rejection:
        """Choose another level for a request whose wanted level has no room or no time.

        First among those that honour all it states, then among all, where options may be overridden. A level that it
        asks for gives way for want of room alone, or of a worker for too long, to the nearest one that has some.
        """
        fit = search.fit
        among = None if fit is None else () if fit.level or fit.is_composed else fit.variants or None
        found = self._among(search, among)
        waits = found == search.wanted and math.isinf(search.loads.wait_ms(self._levels[search.wanted].name))
        if waits and search.over_ms and fit is not None and fit.needs() and search.loads.serving():
            waited_s = search.over_ms / 1000
            reason = f"no worker serves {' or '.join(fit.needs())}; it waited {waited_s:.0f} s: send again later"
            found = Rejection(Status.REJECTED, OVERLOADED, reason, math.ceil(self._limits.others_ms))
        if not isinstance(found, Rejection) or fit is None or among is None or fit.is_composed or fit.is_strict:
            return found
        if not fit.level:
            other = self._among(search, None)
            return found if isinstance(other, Rejection) else other
        if found.code == OVERLOADED:
            own, due = self._levels[search.wanted], search.due
            for level in search.facts.with_workers((*own.cheaper, *own.dearer)):
                wait_ms = search.loads.wait_ms(level)
                if wait_ms <= search.limit_ms and (
                    due.is_soft or can_meet(due.at_ms, search.finish_ms(level, wait_ms))
                ):
                    return level
        return found

    def _among(self, search: "_Search", among: Container[str] | None) -> str | Rejection:
        """Choose among these levels, beside the wanted one; None: among all.

        Source of the predictive drop: DiffServe 4.1.
        """
        wanted, due, loads, now_ms, limit_ms = search.wanted, search.due, search.loads, search.now_ms, search.limit_ms
        own = self._levels[wanted]
        cheaper, dearer = (
            search.facts.with_workers([each for each in levels if among is None or each in among])
            for levels in (own.cheaper, own.dearer)
        )
        wait_ms = {level: loads.wait_ms(self._levels[level].name) for level in (wanted, *cheaper)}
        way_ms = {level: search.costs.way_ms(level, waits, due, loads, now_ms) for level, waits in wait_ms.items()}
        admitted = with_room(wanted, cheaper, way_ms, limit_ms)
        if isinstance(admitted, Rejection):
            return admitted
        candidates = (admitted, *cheaper)
        is_served = not all(math.isinf(wait_ms[level]) for level in candidates)
        for level in candidates if is_served else ():
            if due.allows(search.finish_ms(level, wait_ms[level]), wait_ms[level]):
                return level
        wait_ms |= {level: loads.wait_ms(self._levels[level].name) for level in dearer}
        for level in dearer:
            if wait_ms[level] <= limit_ms and due.allows(search.finish_ms(level, wait_ms[level]), wait_ms[level]):
                return level
        if is_served:
            for level in candidates:
                if can_meet(due.at_ms, self._later_ms(search, level, wait_ms[level])):
                    return level
        if due.is_soft:
            served = candidates[::-1] if is_served else dearer
            return next((level for level in served if wait_ms[level] <= limit_ms), admitted)
        if not is_served:
            return admitted
        reason = f"no level would have met deadline_ms {due.at_ms}: it was {now_ms} when routed"
        return Rejection(Status.EXPIRED, DEADLINE, reason)

    def _later_ms(self, search: "_Search", level: str, wait_ms: float) -> float:
        """When a request ends on a level once the workers that the plan gives it have come; infinite: none comes."""
        variant = self._levels[level].variant
        serving, planned = search.loads.serving_of(variant.name), search.facts.workers[variant.name]
        if serving >= planned:
            return math.inf
        return search.finish_ms(level, shared_wait_ms(wait_ms, serving, planned, variant.load_ms))


class _Search(NamedTuple):
    """The search for another level of a request, whose wanted level has no room or no time."""

    wanted: str
    fit: Fit | None
    due: Due
    facts: _PlanFacts
    costs: _Costs
    loads: Loads
    now_ms: float
    limit_ms: float  # the longest wait that is admitted
    over_ms: float  # that it has waited for a worker of what it needs, for longer than it may; 0: it may wait

    def finish_ms(self, level: str, wait_ms: float) -> float:
        """When the images are judged, if a worker of the level is free after `wait_ms`."""
        return self.costs.finish_ms(level, wait_ms, self.loads, self.now_ms)


def _placement(costs: _Costs, level: str, probability: float, fit: Fit | None, fallback: str = "") -> Placement:
    """The placement on a level, which says what is done instead of the quality that was asked for."""
    placed = costs.placement(level, probability, fallback)
    if fit is None or not (instead := fit.overrides(placed.variant)):
        return placed
    options = placed.options._replace(overridden=(*placed.options.overridden, *instead))
    return placed._replace(options=options)


def with_room(wanted: str, cheaper: Sequence[str], wait_ms: Mapping[str, float], limit_ms: float) -> str | Rejection:
    """The wanted level, else the first cheaper one whose predicted wait is within `limit_ms`, else a rejection.

    `wait_ms`: level -> ms of work that waits on the way from it; infinite if no worker serves it. Such a level is
    returned if it is the wanted one and no cheaper one is served (the request waits for a worker, or for its deadline),
    and never otherwise. `cheaper` is empty for a request that does not allow another level.
    """
    for level in (wanted, *cheaper):
        if wait_ms[level] <= limit_ms:
            return level
    if math.isinf(wait_ms[wanted]):
        return wanted
    seconds = wait_ms[wanted] / 1000
    reason = f"{seconds:.1f} s of work wait before {wanted}; up to {limit_ms / 1000:.1f} s are admitted"
    return Rejection(Status.REJECTED, OVERLOADED, reason, math.ceil(wait_ms[wanted] - limit_ms))
