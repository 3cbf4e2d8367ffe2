"""When open requests will end, and their places among those that wait: for clients, and for no decision.

Its caller reads no job topic, only what other topics say of requests: that they came, that a worker began, that
they were escalated or ended. So the queue is laid out anew for each answer: workers are busy with what has begun, and
what waits is placed in the order of its arrival where `RoutingLogic` places it, each on the worker that is free first,
which takes as many at once as the plan says. A call takes as long as profiled, times the slowness that its workers
report. What is not known yet is reckoned with by its share: a hardness by the routes that it may meet, an escalation
by the discriminator's deferral curve. Of the ways that a request may go the median counts: it has ended by then as
probably as not. What requests take besides, such as the hops between roles, is measured: the median by which the last
ones took longer than was laid out as they came.
"""

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple, Protocol

from planner.catalog.components import Selection
from planner.catalog.entries import Variant, deferred_share, run_ms, variant_of
from planner.catalog.model import Catalog, classes_of
from planner.catalog.option_limits import MAX_IMAGES, check_options
from planner.catalog.options import resolve_options, resolved_ms
from planner.observation.lost import Begun
from planner.serving.routing.cascades import cascade_of, judging_ms, may_escalate
from planner.serving.routing.composing import Fits
from planner.serving.routing.placement import Placement
from planner.serving.routing.routing import NO_LIMITS, RoutingLogic
from planner.serving.routing.unserved import unserved
from schemas.errors import InvalidPlan, InvalidRequest
from schemas.messages import GenerateRequest, Plan

BATCH: Final = "batch"  # the tier whose requests wait for a gate, and not in the queue
MAX_OPEN: Final = 2000  # requests that are laid out; nothing is said of those behind them
MAX_ERRORS: Final = 32  # of requests that ended last: their median is added to what is laid out
MAX_ENDED: Final = 50_000  # ids whose request may be read after their result


class Expectation(NamedTuple):
    """What a client may expect of its request."""

    place: int  # among those that wait for its variant, 1: it goes next; 0: a worker has it
    left_ms: float  # until its end


class FleetValues(Protocol):
    """The workers at one moment."""

    def serving_of(self, variant: str) -> int:
        """Number of workers that take new jobs of a variant."""

    def slowness(self, variant: str) -> float:
        """Run time of a variant's calls as served, as a multiple of the profiled one."""

    def has_lost(self, begun: Begun) -> bool:
        """Whether the worker that has begun a request does not live any more, or has handed it back."""


class _Kind(NamedTuple):
    """A request as it may be classified; satisfies `ClassifiedValues`."""

    request: GenerateRequest
    received_ms: float
    hardness: float
    classes: Mapping[str, str]


class _Part(NamedTuple):
    """A variant that a request may go to first."""

    share: float  # (0, 1]: how probable that is
    level: str
    variant: str
    run_ms: float  # as profiled, alone


class _FirstEstimate(NamedTuple):
    """The first estimate that was sent of a request's end."""

    at_ms: float
    left_ms: float
    laid_out_ms: float  # without what requests take besides


@dataclass(slots=True)
class _Open:
    """A request that has not ended."""

    request: GenerateRequest
    parts: tuple[_Part, ...] = ()  # where it waits, or a worker has it; (): not placed yet
    worker: str = ""  # that has it; "": it waits
    began_ms: float = 0.0
    first: _FirstEstimate | None = None  # None: none was sent

    def begun(self) -> Begun:
        """Return the worker that has it."""
        return Begun(self.worker, self.parts[0].variant, self.began_ms)


class _Call(NamedTuple):
    """The last call that a worker has before it; calls are in the order of their ends."""

    ends_ms: float
    begins_ms: float
    jobs: float = 0.0  # in shares: one that comes with a probability of .3 counts .3
    alone_ms: float = 0.0  # of all its jobs, were each alone


class _Queues:
    """The calls before each worker, by variant; satisfies `Loads`."""

    def __init__(self, catalog: Catalog, plan: Plan, fleet: FleetValues, now_ms: float) -> None:
        self._catalog = catalog
        self._plan = plan
        self._fleet = fleet
        self._now_ms = now_ms
        self._calls: dict[str, list[_Call]] = {}

    def begin(self, variant: str, ends_ms: Iterable[float]) -> None:
        """Have the workers of a variant be busy until these times, each until one; the others are idle."""
        workers = self._fleet.serving_of(variant)
        busy = sorted((max(self._now_ms, end_ms) for end_ms in ends_ms), reverse=True)[:workers]
        calls = [_Call(end_ms, self._now_ms) for end_ms in [*busy, *[self._now_ms] * (workers - len(busy))]]
        heapify(calls)
        self._calls[variant] = calls

    def _of(self, variant: str) -> list[_Call]:
        if variant not in self._calls:
            self.begin(variant, ())
        return self._calls[variant]

    def wait_ms(self, variant: str) -> float:
        """Time until a call begins that one more job of a variant joins; infinite if no worker serves it."""
        if not self._of(variant):
            return math.inf
        return self._joined(variant, 1.0, 0.0).begins_ms - self._now_ms

    def ready_ms(self, variant: str, selection: Selection) -> float:
        """Return `wait_ms`: what workers hold of components is not known here."""
        del selection
        return self.wait_ms(variant)

    def slowness(self, variant: str) -> float:
        """Run time of a variant's calls as served, as a multiple of the profiled one."""
        return self._fleet.slowness(variant)

    def serving_of(self, variant: str) -> int:
        """Number of workers of a variant."""
        return self._fleet.serving_of(variant)

    def serving(self) -> int:
        """Number of workers of all variants."""
        return sum(self._fleet.serving_of(name) for name in self._catalog.served)

    def ends_ms(self, variant: str, alone_ms: float) -> float:
        """When one more job of a variant is generated; infinite if no worker serves it."""
        return self._joined(variant, 1.0, alone_ms).ends_ms if self._of(variant) else math.inf

    def add(self, variant: str, share: float, alone_ms: float) -> None:
        """Add a job that comes with a probability; no-op if no worker serves the variant."""
        calls = self._of(variant)
        if calls:
            heapreplace(calls, self._joined(variant, share, alone_ms))

    def _joined(self, variant: str, share: float, alone_ms: float) -> _Call:
        """The call of the worker that is free first, with this job: its last one if that waits and has room."""
        last = self._calls[variant][0]
        room = self._plan.batch.get(variant, 1) + 1e-9
        is_open = last.begins_ms > self._now_ms and last.jobs + share <= room
        begins_ms = last.begins_ms if is_open else last.ends_ms
        jobs, total_ms = (last.jobs + share, last.alone_ms + share * alone_ms) if is_open else (share, share * alone_ms)
        took_ms = self.slowness(variant) * call_ms(self._catalog.level(variant), jobs, total_ms / jobs)
        return _Call(begins_ms + took_ms, begins_ms, jobs, total_ms)


def _median(ways: Iterable[tuple[float, float]]) -> float:
    """The shortest time in which a request ends as probably as not; `ways`: time and probability of each."""
    ended = 0.0
    for left_ms, share in (ordered := sorted(ways)):
        ended += share
        if ended >= 0.5 - 1e-9:
            return left_ms
    return ordered[-1][0]


def call_ms(variant: Variant, jobs: float, alone_ms: float) -> float:
    """Profiled run time of a call for this number of jobs of a variant, where each takes `alone_ms` alone.

    Between whole numbers of jobs, and below one, it is linear: an expected value.
    """
    whole = int(jobs)
    below, above = (run_ms(variant, whole) if whole else 0.0), run_ms(variant, whole + 1)
    return (below + (jobs - whole) * (above - below)) * alone_ms / run_ms(variant, 1)


class Expecting:
    """The open requests, and what is expected of them. Knows no clock and no topic. One owner."""

    def __init__(self, catalog: Catalog, slo_ms: float = 0.0) -> None:
        """`slo_ms`: see `planner.serving.routing.soft_deadline.Deadlines`."""
        self._catalog = catalog
        self._logic = RoutingLogic(catalog, NO_LIMITS, slo_ms=slo_ms)
        self._fits = Fits(catalog)
        self._open: OrderedDict[str, _Open] = OrderedDict()  # in the order in which they wait
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._errors: deque[float] = deque(maxlen=MAX_ERRORS)

    def on_request(self, request: GenerateRequest) -> None:
        """Take in a request; one that has ended, is open, or cannot be served is passed over."""
        if request.request_id in self._ended or request.request_id in self._open:
            return
        try:
            check_options(request, MAX_IMAGES)
        except InvalidRequest:
            return
        self._open[request.request_id] = _Open(request)

    def on_started(self, request_id: str, level: str, worker: str, at_ms: float, refine_from_step: int = 0) -> None:
        """A worker has begun with a request, skipping this number of the level's steps."""
        known = self._open.get(request_id)
        if known is not None:
            known.parts, known.worker, known.began_ms = self._on(level, known.request, refine_from_step), worker, at_ms

    def on_sent_on(self, request_id: str, level: str, refine_from_step: int = 0) -> None:
        """A request was escalated or rerouted to a level: it waits there, behind those that do."""
        known = self._open.get(request_id)
        if known is not None:
            known.parts, known.worker = self._on(level, known.request, refine_from_step), ""
            self._open.move_to_end(request_id)

    def on_estimate_sent(self, request_id: str, expected: Expectation, now_ms: float) -> None:
        """An estimate is sent to a request's client: the first one is compared with the time that the request took."""
        known = self._open.get(request_id)
        if known is not None and known.first is None and expected.place:
            known.first = _FirstEstimate(now_ms, expected.left_ms, expected.left_ms - self._besides_ms())

    def on_ended(self, request_id: str, now_ms: float, *, is_served: bool = True) -> float | None:
        """A request has its result; return its time as a multiple of the first estimate, None where none was sent.

        `is_served`: whether it has an image, as what was expected.
        """
        self._ended[request_id] = None
        if len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)
        known = self._open.pop(request_id, None)
        if known is None or known.first is None or not is_served:
            return None
        estimate, took_ms = known.first, now_ms - known.first.at_ms
        self._errors.append(took_ms - estimate.laid_out_ms)
        return took_ms / estimate.left_ms if estimate.left_ms > 0 else None

    def _besides_ms(self) -> float:
        return median(self._errors) if self._errors else 0.0

    def _on(self, level: str, request: GenerateRequest, refine_from_step: int) -> tuple[_Part, ...]:
        variant = variant_of(level)
        if variant not in self._catalog.served:  # of a newer catalog
            return ()
        return (_Part(1.0, level, variant, self._alone_ms(variant, request, refine_from_step)),)

    def _alone_ms(self, variant: str, request: GenerateRequest, refine_from_step: int) -> float:
        entry = self._catalog.level(variant)
        return resolved_ms(entry, resolve_options(request.options, entry, refine_from_step))

    def expected(self, plan: Plan, fleet: FleetValues, now_ms: float) -> dict[str, Expectation]:
        """Return what is expected of each open request under the plan in force, on the clock of `now_ms`.

        Absent are those of which nothing is known: without a worker, or whose worker is lost, to be turned away by the
        router, of the batch tier while they wait for its gate, and behind the first MAX_OPEN. O(open requests).
        """
        queues = _Queues(self._catalog, plan, fleet, now_ms)
        found: dict[str, Expectation] = {}
        begun = [known for known in self._open.values() if known.worker and known.parts]
        lost = {known.request.request_id for known in begun if fleet.has_lost(known.begun())}
        for known, ends_ms in self._running([each for each in begun if each.request.request_id not in lost], queues):
            found[known.request.request_id] = Expectation(0, self._left_ms(known, [ends_ms], plan, queues, now_ms))
        places: Counter[str] = Counter()
        besides_ms = self._besides_ms()
        kinds = _kinds(plan, self._catalog)
        waiting = [each for each in self._open.values() if not each.worker or each.request.request_id in lost]
        for known in waiting[:MAX_OPEN]:
            if not known.parts and known.request.tier != BATCH:
                known.parts = self._placed(known.request, plan, kinds, queues, now_ms)
            if not known.parts:
                continue
            ends = [queues.ends_ms(part.variant, part.run_ms) for part in known.parts]
            left_ms = self._left_ms(known, ends, plan, queues, now_ms)
            likeliest = max(known.parts).variant
            places[likeliest] += 1
            if math.isfinite(left_ms) and not known.worker:
                left_ms = max(0.0, left_ms + besides_ms)
                found[known.request.request_id] = Expectation(places[likeliest], left_ms)
            self._add(known, plan, queues)
        return found

    def waits_in_vain(self, request_id: str, serving: Collection[str], now_ms: float) -> str:
        """Return what a request waits for that no worker serves, with all that wait for it; "": it does not.

        `serving`: variants that workers serve.
        """
        needs = self._needs(self._open.get(request_id))
        if not needs or any(variant in serving for variant in needs):
            return ""
        waiting = ((self._needs(known), float(known.request.created_ms)) for known in self._open.values())
        return next(each.in_words(now_ms) for each in unserved(waiting, serving) if each.variants == needs)

    def _needs(self, known: "_Open | None") -> tuple[str, ...]:
        """The variants of which a request that waits needs one; (): it does not wait."""
        if known is None or known.worker:
            return ()
        return self.needs(known.request)

    def needs(self, request: GenerateRequest) -> tuple[str, ...]:
        """Return the variants of which a request needs one; all levels where any will do."""
        return self._fits.of(request.options, request.quality).needs() or tuple(self._catalog.variants)

    def _running(self, begun: Iterable[_Open], queues: _Queues) -> list[tuple[_Open, float]]:
        """Have the workers be busy with what has begun; return each of it with the time at which it is generated."""
        of_workers: dict[tuple[str, str], list[_Open]] = {}
        for known in begun:
            of_workers.setdefault((known.parts[0].variant, known.worker), []).append(known)
        ends: dict[str, list[float]] = {}
        running = []
        for (variant, _), all_of_it in of_workers.items():
            last_ms = max(known.began_ms for known in all_of_it)
            call = [known for known in all_of_it if known.began_ms == last_ms]
            alone_ms = sum(known.parts[0].run_ms for known in call) / len(call)
            took_ms = queues.slowness(variant) * call_ms(self._catalog.level(variant), len(call), alone_ms)
            ends.setdefault(variant, []).append(last_ms + took_ms)
            running += [(known, last_ms + took_ms if known.began_ms == last_ms else last_ms) for known in all_of_it]
        for variant, ends_ms in ends.items():
            queues.begin(variant, ends_ms)
        return running

    def _placed(
        self,
        request: GenerateRequest,
        plan: Plan,
        kinds: Iterable[tuple[float, float, Mapping[str, str]]],
        queues: _Queues,
        now_ms: float,
    ) -> tuple[_Part, ...]:
        """Where the router would place a request, by all that the classifier may say of it; (): nowhere."""
        shares: dict[str, float] = {}
        found: dict[str, Placement] = {}
        for share, hardness, classes in kinds:
            try:
                kind = _Kind(request, request.created_ms, hardness, classes)
                placed = self._logic.reroute(kind, plan, queues, now_ms)
            except InvalidPlan:
                return ()
            if not isinstance(placed, Placement):
                return ()
            found[placed.level] = placed
            shares[placed.level] = shares.get(placed.level, 0.0) + share
        return tuple(_Part(shares[level], level, placed.variant, placed.run_ms) for level, placed in found.items())

    def _add(self, known: _Open, plan: Plan, queues: _Queues) -> None:
        """Add the work of a request that waits, with what its levels are expected to escalate."""
        for part in known.parts:
            queues.add(part.variant, part.share, part.run_ms)
            for share, variant, alone_ms in self._escalations(part.level, known.request, plan):
                queues.add(variant, part.share * share, alone_ms)

    def _left_ms(self, known: _Open, ends_ms: Iterable[float], plan: Plan, queues: _Queues, now_ms: float) -> float:
        """Time until a request's end: the median of its ways; `ends_ms`: when each of its parts is generated."""
        ways: list[tuple[float, float]] = []  # time until the end, probability
        for part, generated_ms in zip(known.parts, ends_ms, strict=True):
            left_ms = max(0.0, generated_ms - now_ms) + self._judged_ms(part.level, known.request, plan)
            reached = 1.0
            for share, variant, alone_ms in self._escalations(part.level, known.request, plan):
                ways.append((left_ms, part.share * (reached - share)))
                waited_ms = queues.ends_ms(variant, alone_ms) - now_ms
                left_ms = max(waited_ms, left_ms + queues.slowness(variant) * alone_ms)
                left_ms += self._judged_ms(variant, known.request, plan)
                reached = share
            ways.append((left_ms, part.share * reached))
        return _median(ways)

    def _judged_ms(self, level: str, request: GenerateRequest, plan: Plan) -> float:
        judged = request.options.n if may_escalate(request, self._catalog) else 0
        return judged * judging_ms(plan, level, self._catalog)

    def _escalations(self, level: str, request: GenerateRequest, plan: Plan) -> list[tuple[float, str, float]]:
        """The later stages of a request that begins on a level: probability that it comes there, variant, run time."""
        stages: list[tuple[float, str, float]] = []
        reached, met = 1.0, {variant_of(level)}
        while may_escalate(request, self._catalog) and (cascade := cascade_of(plan, level)) is not None:
            level = cascade.next_level
            variant = variant_of(level)
            reached *= deferred_share(self._catalog.discriminator(cascade.discriminator), cascade.threshold)
            if not reached or variant in met:
                break
            met.add(variant)
            stages.append((reached, variant, self._alone_ms(variant, request, cascade.refine_from_step)))
        return stages


def _kinds(plan: Plan, catalog: Catalog) -> list[tuple[float, float, Mapping[str, str]]]:
    """What the classifier may say, as far as the plan's routes distinguish it: share of requests, hardness, classes.

    Hardness is a quantile on reference prompts, so that the width of an interval is its share of requests.
    """
    bounds = {0.0, 1.0}
    for route in plan.routes:
        bounds |= {route.hardness_from, route.hardness_to} if not route.label else set()
    if any(route.label for route in plan.routes):
        bounds |= {cut.hardness for cut in catalog.class_cuts.get(plan.strategy, ())}
    edges = sorted(bound for bound in bounds if 0 <= bound <= 1)
    middles = [(after - before, (before + after) / 2) for before, after in pairwise(edges)]
    return [(share, middle, classes_of(catalog, middle)) for share, middle in middles]
