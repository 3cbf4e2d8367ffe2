"""The order of all checks between a job that a worker has taken and the latent that it begins from.

`LookupLogic` (`worker.py`) decides by `before_lookup`; the live worker and the simulated one ask the stores in between.

    before_lookup   the route allows it          else `route`
                    the request allows it        else `ineligible`, with the refusal
                    its first attempt            else `retry`
                    some step can be saved       else `floor`, `guard` or `steps`
                    worth the time of a lookup   else `unprofitable`
                    there are stores to ask      else `absent`
                    they answered recently       else `breaker`
    search          within the deadline           else `timeout`, `failed`
    choose          a neighbour may be used, is similar enough, states equal facts
    fetch           within the same deadline
    unfit_latent    the latent is there, whole, and of this model and size
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions, resolved_ms
from planner.reuse.eligibility import Asked, Consent, lookup_refusal
from planner.reuse.guard import Compare, Comparison, Verdict, allowed_share
from planner.reuse.lookups.deadline import DEFAULT_RULE, DeadlineRule, lookup_deadline_ms
from planner.reuse.neighbour import Miss, Neighbour, Wanted, fault
from planner.reuse.steps import Candidate, Decision, FullRun, Reuse, decide, step_of
from planner.reuse.terms import NO_GUARD, Terms
from schemas.messages import GenerateOptions, StageReuse

MAX_CANDIDATES: Final = 3  # neighbours that a search returns
LATE: Final = 0.1  # of the deadline: what fails with less than this left was late
NOTHING_DROPPED: Final[Mapping[str, int]] = MappingProxyType({})


class Requested(Protocol):
    """A request as `job_of` reads it: a client's message, or a simulated one."""

    @property
    def prompt(self) -> str: ...

    @property
    def seed(self) -> int | None: ...

    @property
    def options(self) -> GenerateOptions: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupJob:
    """A job as the rules of lookups read it."""

    asked: Asked
    prompt: str
    route_share: float  # of its steps, that its level lets a stored latent save
    steps: int  # N
    run_ms: float  # predicted, of all its steps
    attempt: int = 1  # owners it has had, this one included


class Lookup(NamedTuple):
    """The decision to ask the stores."""

    share: float  # of the steps: the most that can be saved
    deadline_ms: float  # for search and fetch together


class Found(NamedTuple):
    """A row that a search returned, with the prompt that its image was made for."""

    neighbour: Neighbour
    prompt: str


def asked_of(request: Requested, variant: Variant, *, has_draft: bool) -> Asked:
    """Return a request as the rules of eligibility read it; an unknown consent counts as `off`."""
    try:
        consent = Consent(request.options.reuse)
    except ValueError:
        consent = Consent.OFF
    return Asked(
        consent=consent,
        has_seed=request.seed is not None,
        has_draft=has_draft,
        options=request.options,
        own_steps=variant.steps,
        own_guidance=variant.guidance,
        own_size=(variant.width, variant.height),
    )


def job_of(
    request: Requested,
    variant: Variant,
    how: ResolvedOptions,
    route_share: float,
    *,
    has_draft: bool = False,
    attempt: int = 1,
) -> LookupJob:
    """Return a job as the rules of lookups read it; `how`: its options on this variant."""
    return LookupJob(
        asked=asked_of(request, variant, has_draft=has_draft),
        prompt=request.prompt,
        route_share=route_share,
        steps=how.steps,
        run_ms=resolved_ms(variant, how._replace(refine_from_step=0)),
        attempt=attempt,
    )


def before_lookup(
    terms: Terms, job: LookupJob, *, is_there: bool, is_open: bool, rule: DeadlineRule = DEFAULT_RULE
) -> Lookup | FullRun:
    """Decide whether the stores are asked. `is_there`: they are known here; `is_open`: the breaker before them."""
    if not job.route_share > 0.0:
        return FullRun(Miss.ROUTE)
    if refusal := lookup_refusal(job.asked):
        return FullRun(Miss.INELIGIBLE, refusal)
    if job.attempt > 1:
        return FullRun(Miss.RETRY)
    share = min(job.route_share, terms.max_share)
    if not step_of(share, job.steps):
        return FullRun(_never(terms))
    deadline_ms = lookup_deadline_ms(job.run_ms, share, rule)
    if deadline_ms is None:
        return FullRun(Miss.UNPROFITABLE)
    if not is_there:
        return FullRun(Miss.ABSENT)
    return FullRun(Miss.BREAKER) if is_open else Lookup(share, deadline_ms)


def _never(terms: Terms) -> Miss:
    """Why no neighbour could save a step."""
    if not terms.floors.floors or not terms.floors.floors[-1].share > 0.0:
        return Miss.FLOOR
    if terms.guard is not None and not terms.guard.max_share > 0.0:
        return Miss.GUARD
    return Miss.STEPS


def choose(
    terms: Terms,
    job: LookupJob,
    found: Iterable[Found],
    wanted: Wanted,
    compare: Compare,
    now_ms: float,
    dropped: Mapping[str, int] = NOTHING_DROPPED,
) -> Decision:
    """Decide by what a search found, the nearest first. Prompts are compared only as far as it can matter.

    `dropped`: how many rows the search returned that failed the store's own check, by reason.
    """
    candidates = _candidates(terms, job, found, wanted, compare, now_ms)
    decision = decide(job.route_share, terms.floors, candidates, wanted, job.steps, now_ms)
    return FullRun(_nothing_left(dropped)) if decision == FullRun(Miss.NONE) else decision


def without_answer(left_ms: float, deadline_ms: float, *, is_cut: bool) -> FullRun:
    """Return why a job runs in full that the stores did not answer.

    `left_ms`: of its deadline, when they were given up or failed; `is_cut`: they had not even failed by then. An error
    that comes so shortly before the deadline is a store that gave up as it was late, not a wrong one.
    """
    return FullRun(Miss.TIMEOUT if is_cut or left_ms <= LATE * deadline_ms else Miss.FAILED)


def _candidates(
    terms: Terms, job: LookupJob, found: Iterable[Found], wanted: Wanted, compare: Compare, now_ms: float
) -> Iterator[Candidate]:
    """Each neighbour with its guard's share; the prompt of one that may not be used is never read."""
    best = 0
    for neighbour, prompt in found:
        most = min(job.route_share, terms.floors.share(neighbour.similarity))
        if best and step_of(most, job.steps) <= best:
            return  # it and those after it are less similar: none of them saves more
        if not most > 0.0 or fault(neighbour, wanted, now_ms):
            yield Candidate(neighbour, 0.0)
            continue
        share = _guard_share(terms, job.prompt, prompt, compare)
        best = max(best, step_of(min(most, share), job.steps))
        yield Candidate(neighbour, share)


def _guard_share(terms: Terms, one: str, other: str, compare: Compare) -> float:
    if terms.guard is None:
        return NO_GUARD
    return allowed_share(terms.guard, Comparison(Verdict.EQUAL) if one == other else compare(one, other))


_OF_DROPPED: Final[Mapping[str, Miss]] = {  # by what a store's check calls it, the worst first
    "tenant": Miss.TENANT,
    "model": Miss.MODEL,
    "size": Miss.SIZE,
    "expired": Miss.STALE,
    "dimension": Miss.DIMENSION,
    "damaged": Miss.RUBBISH,
}
_OF_UNFIT: Final[Mapping[str, Miss]] = {"autoencoder": Miss.MODEL, "shape": Miss.DIMENSION}


def _nothing_left(dropped: Mapping[str, int]) -> Miss:
    """Why a search left no neighbour."""
    return next((miss for reason, miss in _OF_DROPPED.items() if dropped.get(reason)), Miss.NONE)


def unfit_latent(kind: str) -> Miss:
    """Why a stored latent cannot be begun with, from the word of who looked at it."""
    return _OF_UNFIT.get(kind, Miss.RUBBISH)


def outcome_of(decision: Decision) -> str:
    """Return what became of a job in a word, for a counter: hit, or why not; an ineligible one with its refusal."""
    if isinstance(decision, Reuse):
        return "hit"
    return f"{decision.why}/{decision.refusal}" if decision.refusal else decision.why


def described(decision: Decision, steps: int) -> StageReuse:
    """Return the reason in a result. A near image of another tenant is not mentioned: it would reveal a prompt."""
    if isinstance(decision, Reuse):
        return StageReuse(step=decision.step, steps=decision.steps, similarity=decision.similarity)
    return StageReuse(steps=steps, miss=Miss.NONE if decision.why is Miss.TENANT else outcome_of(decision))
