"""Whether a picture is kept or its request is painted again on the next level."""

import math
from dataclasses import dataclass

from planner.catalog.model import Catalog
from planner.serving.admission import can_meet
from planner.serving.requests import ClassifiedValues
from schemas.messages import Cascade, ClassifiedRequest, Plan


@dataclass(frozen=True, slots=True)
class Keep:
    """The picture is the answer."""

    threshold: float | None  # None: no cascade held for its level
    reason: str


@dataclass(frozen=True, slots=True)
class Escalate:
    """The request goes on to the next level."""

    next_level: str
    threshold: float
    reason: str


Verdict = Keep | Escalate


def may_escalate(classified: ClassifiedValues, catalog: Catalog) -> bool:
    """Whether a rejected picture may be painted again: not where the request asked for `low`, or named its model."""
    return classified.request.quality != "low" and classified.request.options.model not in catalog.variants


def cascade_of(plan: Plan, level: str) -> Cascade | None:
    """The cascade that holds for pictures of a level, if any: without one, nothing needs to be scored."""
    return next((cascade for cascade in plan.cascades if cascade.level == level), None)


def judging_ms(plan: Plan, level: str, catalog: Catalog) -> float:
    """ms until a picture of a level is judged; 0 where the plan judges none of it. Part of when a request ends."""
    cascade = cascade_of(plan, level)
    return catalog.discriminator(cascade.discriminator).latency_ms if cascade else 0.0


def judged_ms(plan: Plan, classified: ClassifiedRequest, level: str, catalog: Catalog) -> float:
    """The same for all pictures of a request, one after the other; 0 where it may not be painted again."""
    pictures = classified.request.options.n if may_escalate(classified, catalog) else 0
    return pictures * judging_ms(plan, level, catalog)


def judge(
    plan: Plan, level: str, confidence: float | None, deadline_ms: int | None, now_ms: int, wait_and_run_next_ms: float
) -> Verdict:
    """Keep or escalate, by the plan in force when the picture is scored.

    Kept if confidence >= threshold, or no cascade holds for the level, or the next level would miss the deadline;
    infinite `wait_and_run_next_ms` (no worker serves it) misses every deadline, but without one the request waits.
    A threshold of 1 keeps nothing, so that f(1) = 1 whatever rounds to a confidence of 1. A confidence that is missing
    or no number counts as 0. Source: DiffServe 3.1 (keeps above t), HADIS 3.3 (keeps from t on: ours).
    """
    cascade = cascade_of(plan, level)
    if cascade is None:
        return Keep(None, f"no cascade for {level}")
    score, threshold = as_score(confidence), cascade.threshold
    told = f"confidence {score:.3f}" if score == confidence else f"confidence {confidence} counts as 0"
    if keeps(cascade, score):
        return Keep(threshold, f"{told} >= threshold {threshold:.3f}")
    doubt = f"{told} < threshold {threshold:.3f}" if score < threshold else f"{told}, threshold 1 keeps nothing"
    if deadline_ms is not None and not can_meet(deadline_ms, now_ms + wait_and_run_next_ms):
        late = f"{cascade.next_level} would need {wait_and_run_next_ms:.0f} ms of {deadline_ms - now_ms}"
        return Keep(threshold, f"{doubt}, but no time left: {late}")
    return Escalate(cascade.next_level, threshold, doubt)


def keeps(cascade: Cascade, score: float) -> bool:
    """Whether a picture of this confidence is good enough, time apart; a threshold of 1 keeps nothing."""
    return score >= cascade.threshold and cascade.threshold < 1


def as_score(confidence: float | None) -> float:
    """The confidence as a number; 0 for one that is missing or not finite, as it vouches for nothing."""
    return confidence if confidence is not None and math.isfinite(confidence) else 0.0
