"""Whether an image is the answer to its request, or the request goes on to the next level of a cascade.

`EscalationLogic` decides in two phases, because scoring an image is input and output:

    examine(plan, level, request) -> Keep       the image is the answer, unscored
                                  -> Score      ask this discriminator for a confidence, then
    decide(score, ...)            -> Keep       the image is the answer
                                  -> Escalate   a job on the next level refines the image
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.catalog.option_limits import quality_named
from planner.catalog.options import AS_IT_IS, ResolvedOptions, begins_at, resolve_options, resolved_ms
from planner.serving.decisions import draft_counts, scores_in_words
from planner.serving.ending.outcomes import as_score
from planner.serving.requests import ClassifiedValues, RequestValues
from planner.serving.routing.cascades import cascade_of, judging_ms, keeps, may_escalate
from planner.serving.routing.composing import Fits
from planner.serving.routing.loads import Loads, begins_ms
from planner.serving.routing.promises import Promises
from planner.serving.routing.soft_deadline import Deadlines, Due
from schemas.messages import Cascade, GenerateOptions, Plan, PromisedQuality

AS_REQUESTED = "kept as it is: the request asked for this level"
STANDS_IN = "kept as it is: this level stands in for the one that the request named, which had no room or no worker"
AS_STATED = "kept as it is: the next level would override what the request states"

Size = tuple[int, int]
"""Width and height of an image in pixels."""


class Refinement(NamedTuple):
    """How the next level would generate the request: from noise, or by refining the draft from a step."""

    variant: str
    options: ResolvedOptions  # as the variant resolves the request's, with the step at which refining begins
    from_step: int  # of `options.steps`; 0: from noise
    run_ms: float  # as profiled, of all its images in one call


@dataclass(frozen=True, slots=True)
class Score:
    """The image must be scored before it is decided; one value serves all images of a level under a plan."""

    plan: Plan  # in force when scoring begins; the decision obeys it, too
    cascade: Cascade
    latency_ms: float  # of scoring one image
    plain: dict[Sequence[Size], Refinement] = field(default_factory=dict, repr=False, compare=False)
    """Image sizes -> how the next level refines them for a request without options, as most are."""

    @property
    def discriminator(self) -> str:
        """Name of the discriminator to ask."""
        return self.cascade.discriminator


class Scored:
    """The facts of an image once it is scored."""

    __slots__ = ("asked", "confidence", "due", "loads", "next_ms", "now_ms", "refinement", "request", "score", "sizes")

    def __init__(
        self,
        asked: Score,
        request: RequestValues,
        due: Due,
        sizes: Sequence[Size],
        confidence: float | None,
        loads: Loads,
        now_ms: float,
    ) -> None:
        self.asked = asked
        self.request = request
        self.due = due
        self.sizes = sizes  # of all images of the job
        self.confidence = confidence  # of the worst of them; None: no discriminator answered
        self.loads = loads
        self.now_ms = now_ms
        self.score = as_score(confidence)
        self.refinement: Refinement | None = None  # once it was asked for
        self.next_ms = 0.0  # that the next level needs, once it was asked for

    def is_good(self) -> str:
        """The reason of an image that is good enough."""
        return f"{self._in_words()} >= threshold {self._threshold()}"

    def is_doubtful(self) -> str:
        """The reason of an image that is not good enough."""
        if self.score < self.asked.cascade.threshold:
            return f"{self._in_words()} < threshold {self._threshold()}"
        return f"{self._in_words()}, threshold 1 keeps nothing"

    def is_late(self) -> str:
        """The reason of an image that is not good enough, but must do."""
        left_ms = max(0.0, (self.due.at_ms or 0) - self.now_ms)
        within = " within the SLO" if self.due.is_soft else ""
        level = self.asked.cascade.next_level
        if math.isinf(self.next_ms):
            return f"{self.is_doubtful()}, but no worker serves {level}, and {left_ms:.0f} ms are left{within}"
        late = f"{level} needs {self.next_ms:.0f} ms, and {left_ms:.0f} ms are left{within}"
        return f"{self.is_doubtful()}, but no time left: {late}"

    def _in_words(self) -> str:
        if self.score == self.confidence:
            return f"confidence {scores_in_words(self.score, self.asked.cascade.threshold, digits=3)[0]}"
        return f"confidence {self.confidence} counts as 0"

    def _threshold(self) -> str:
        return scores_in_words(self.score, self.asked.cascade.threshold, digits=3)[1]


class Keep(NamedTuple):
    """The image is the answer."""

    threshold: float | None  # None: not scored
    why: str | Callable[[], str]
    is_rejected: bool = False  # it is not good enough: the next level would be too late
    overridden: tuple[str, ...] = ()  # what was done instead of what the request states
    promise: PromisedQuality | None = None  # None: nothing is promised of it

    @property
    def reason(self) -> str:
        """Why, in words; put together only for those who ask."""
        return self.why if isinstance(self.why, str) else self.why()


class Escalate(NamedTuple):
    """The request goes on to the next level, as a job that refines the image."""

    next_level: str
    how: Refinement
    threshold: float
    why: Callable[[], str]

    @property
    def reason(self) -> str:
        """Why, in words; put together only for those who ask."""
        return self.why()


class EscalationLogic:
    """The order of all checks between an image and the end of its request, or its next job."""

    def __init__(self, catalog: Catalog, slo_ms: float = 0.0) -> None:
        """`slo_ms`: see `Deadlines`."""
        self._catalog, self._deadlines = catalog, Deadlines(catalog, slo_ms)
        self._fits = Fits(catalog)
        self._promises = Promises(catalog)
        self._plan: Plan | None = None  # of which `_asked` is remembered
        self._asked: dict[str, Score | Keep] = {}  # by level

    def examine(self, plan: Plan, level: str, classified: ClassifiedValues, is_derived: bool = False) -> Keep | Score:
        """Decide before an image is scored, by the plan in force.

        Kept, if no cascade of the plan holds for its level, the request asked for this level, or the next one would
        override options that this one honours. `is_derived`: it began with another image, of a draft or a neighbour, so
        that nothing is promised of it where it is not scored.
        """
        request, asked = classified.request, self._ask(plan, level)
        if isinstance(asked, Score):
            if not may_escalate(request, self._catalog):
                named = request.options.model
                stands_in = named in self._catalog.served and named != variant_of(level)
                asked = Keep(None, STANDS_IN if stands_in else AS_REQUESTED)
            elif request.options is not AS_IT_IS and self._overrides_more(asked.cascade, request.options):
                asked = Keep(None, AS_STATED)
        if isinstance(asked, Score):
            cascade = self._promises.judging(asked.cascade, plan, classified)
            return asked if cascade is asked.cascade else replace(asked, cascade=cascade, plain={})
        if not is_derived:
            asked = asked._replace(promise=self._promises.stated(level, "", 0.0, classified))
        if quality_named(request.quality).unjudged:
            return asked._replace(overridden=self._unjudged(variant_of(level), request))
        return asked

    def _unjudged(self, variant: str, request: RequestValues) -> tuple[str, ...]:
        """What is done instead of a quality that asks for a judgement, where no better level would follow it."""
        fit = self._fits.of(request.options, request.quality)
        is_first = variant == (fit.level or request.options.model)
        if not is_first or fit.overrides(variant) or not self._catalog.dearer_than(variant):
            return ()
        return (f"quality: {request.quality} -> {quality_named(request.quality).unjudged}",)

    def _overrides_more(self, cascade: Cascade, options: GenerateOptions) -> bool:
        names = (variant_of(cascade.level), cascade.next_level)
        here, there = (resolve_options(options, self._catalog.level(name)).overridden for name in names)
        return not {each.partition(":")[0] for each in there} <= {each.partition(":")[0] for each in here}

    def decide(
        self,
        asked: Score,
        classified: ClassifiedValues,
        sizes: Sequence[Size],
        confidence: float | None,
        loads: Loads,
        now_ms: float,
    ) -> Keep | Escalate:
        """Decide on an image once it is scored, by the plan under which it was examined.

        Kept if confidence >= threshold, or the next level would miss the deadline, its wait, its run time as served and
        the load of components that no worker of it holds included. A soft deadline counts so where others wait for that
        level, or where other levels are served and that one is not; without any deadline the request waits. `loads` is
        asked only of images below the threshold.
        `sizes`: of all images of the job; `confidence`: of the worst of them.
        Source: DiffServe 3.1 (keeps above t), HADIS 3.3 (keeps from t on: ours).
        """
        due = self._deadlines.of(classified)
        scored = Scored(asked, classified.request, due, sizes, confidence, loads, now_ms)
        kept = self.keep_confident(scored)
        if kept is not None:
            cascade = asked.cascade
            stated = self._promises.stated(cascade.level, cascade.discriminator, cascade.threshold, classified)
            return kept._replace(promise=stated)
        return self.keep_for_time(scored) or self.escalate(scored)

    def keep_confident(self, scored: Scored) -> Keep | None:
        """The image is good enough."""
        cascade = scored.asked.cascade
        return Keep(cascade.threshold, scored.is_good) if keeps(cascade, scored.score) else None

    def keep_for_time(self, scored: Scored) -> Keep | None:
        """The next level could not answer by the deadline; no reason where the request states a quality."""
        due, asked = scored.due, scored.asked
        if due.at_ms is None or not draft_counts(scored.request.options):
            return None
        refinement = self._refine(scored)
        after = self._ask(asked.plan, asked.cascade.next_level)
        scoring_ms = after.latency_ms * scored.request.options.n if isinstance(after, Score) else 0.0
        variant, components = self._catalog.level(refinement.variant), refinement.options.components
        wait_ms = scored.loads.wait_ms(variant.name)
        run_ms = scored.loads.slowness(variant.name) * refinement.run_ms
        scored.next_ms = begins_ms(variant, components, wait_ms, scored.loads) + run_ms + scoring_ms
        if due.allows(scored.now_ms + scored.next_ms, wait_ms):
            return None
        if due.is_soft and not scored.loads.serving():  # the fleet is gone, and not the time
            return None
        return Keep(asked.cascade.threshold, scored.is_late, is_rejected=True)

    def escalate(self, scored: Scored) -> Escalate:
        """The request goes on to the next level of its cascade."""
        cascade = scored.asked.cascade
        return Escalate(cascade.next_level, self._refine(scored), cascade.threshold, scored.is_doubtful)

    def _ask(self, plan: Plan, level: str) -> Score | Keep:
        if plan is not self._plan:
            self._plan, self._asked = plan, {}
        asked = self._asked.get(level)
        if asked is None:
            asked = self._asked[level] = self._first(plan, level)
        return asked

    def _first(self, plan: Plan, level: str) -> Score | Keep:
        cascade = cascade_of(plan, level)
        if cascade is None:
            return Keep(None, f"kept, as no discriminator judges images of {level} under this plan")
        return Score(plan, cascade, judging_ms(plan, level, self._catalog))

    def _refine(self, scored: Scored) -> Refinement:
        if scored.refinement is None:
            scored.refinement = self._remembered(scored)
        return scored.refinement

    def _remembered(self, scored: Scored) -> Refinement:
        options, plain = scored.request.options, scored.asked.plain
        if options is not AS_IT_IS and options != AS_IT_IS:
            return self._resolve(scored.asked.cascade, options, scored.sizes)
        sizes = tuple(scored.sizes)
        if sizes not in plain:
            plain[sizes] = self._resolve(scored.asked.cascade, options, sizes)
        return plain[sizes]

    def _resolve(self, cascade: Cascade, options: GenerateOptions, sizes: Sequence[Size]) -> Refinement:
        variant = self._catalog.level(cascade.next_level)
        how = resolve_options(options, variant)
        from_step = begins_at(cascade.refine_from_step, variant, how, sizes)
        own = how._replace(refine_from_step=from_step)
        return Refinement(variant.name, own, from_step, resolved_ms(variant, own))
