"""Estimates how another plan would have served past requests, by inverse propensity, without generating an image.

A route draws levels at random and stamps how probable the drawn one was (`Step.probability`). A request of the past
therefore stands for pi / p requests under another plan, where p is that probability and pi the other plan's for the
same level. Estimates are self-normalised: sum(w x) / sum(w). Source: Hajek's estimator; Owen, Monte Carlo theory,
chapter 9 (effective sample size); ours for cascades.

What it cannot know is reported, never guessed: levels that the past never drew where the other plan would, and images
that were kept where the other plan would have generated again. Latencies are those of the past's own load.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from planner.serving.ending.outcomes import as_score
from planner.serving.routing.cascades import cascade_of, keeps
from planner.serving.routing.placement import odds
from schemas.errors import InvalidPlan
from schemas.messages import Plan

RESAMPLES = 400
MIN_EFFECTIVE = 50  # effective requests, below which an interval means little
MUCH = 0.05  # share that is unknown or never drawn, above which an estimate is of other requests than it claims

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """One ended request. Its first image may have been the answer, or been rejected and generated again."""

    hardness: float  # [0, 1]
    classes: Mapping[str, str]  # strategy -> class
    level: str  # of the first image; "" where it ended before one
    probability: float  # of that level under the plan of then; 0: not drawn (requested, lowered, or never generated)
    confidence: float | None  # of the first image; None: not scored
    last_level: str  # of the last image
    first_ms: float  # latency, had the first image been the answer
    latency_ms: float  # created -> ended
    first_work_ms: float  # worker time of the first image
    work_ms: float  # of all images
    is_completed: bool

    @property
    def went_on(self) -> bool:
        """Whether its first image was generated again."""
        return self.last_level != self.level


@dataclass(frozen=True, slots=True)
class Ending:
    """The estimated end of a request under another plan."""

    level: str
    latency_ms: float
    work_ms: float
    is_completed: bool
    is_escalated: bool


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimate of a plan's figures from past requests."""

    requests: int
    undrawn: int  # whose first level no draw decided: they go the same way under any plan
    effective: float  # (sum w)^2 / sum w^2
    never_drawn: float  # share of the plan's draws that the past has no example of: 1 - mean(w), at least 0
    unknown: float  # weighted share whose end is not known from the past
    figures: Mapping[str, Interval]

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why not to believe it; none: believe it within its intervals."""
        said = []
        if self.effective < MIN_EFFECTIVE:
            said.append(f"only {self.effective:.0f} effective requests of {self.requests}: read a longer time")
        if self.never_drawn > MUCH:
            said.append(
                f"{self.never_drawn:.0%} of the first levels that this plan draws were never drawn in the past: raise "
                "planner.exploration_rate and ask again later, or use `pochade simulate`"
            )
        if self.unknown > MUCH:
            said.append(
                f"{self.unknown:.0%} have an unknown end: the past kept an image that this plan generates again"
            )
        return tuple(said)


def ending(past: Past, plan: Plan) -> Ending | None:
    """Return how a past request would have ended under a plan, from its first level on; None if unknown."""
    if not past.level:  # it ended before any image
        return Ending("", past.latency_ms, past.work_ms, past.is_completed, is_escalated=False)
    cascade = cascade_of(plan, past.level)
    if cascade is None or (past.confidence is not None and keeps(cascade, as_score(past.confidence))):
        is_answer = past.is_completed or past.went_on
        return Ending(past.level, past.first_ms, past.first_work_ms, is_answer, is_escalated=False)
    if past.went_on and past.last_level == cascade.next_level:
        return Ending(past.last_level, past.latency_ms, past.work_ms, past.is_completed, is_escalated=True)
    return None


def weight(past: Past, plan: Plan) -> float:
    """Return how many requests under a plan this one stands for: pi / p, 1 where no draw decided.

    Raises InvalidPlan where the plan has no route for the request.
    """
    if not past.probability:
        return 1.0
    return odds(plan, past.hardness, past.classes).get(past.level, 0.0) / past.probability


def estimate(past: Sequence[Past], plan: Plan, slo_ms: float, seed: int) -> Estimate:
    """Estimate the figures of a plan on these requests; `seed` is the bootstrap's.

    Figures: violations (later than `slo_ms` or not completed), painted_again (shares of requests), latency_p50_s,
    latency_p95_s, work_ms (a request), and for each level `answered by LEVEL`, a share of the completed.
    Raises InvalidPlan for no requests at all.
    """
    if not past:
        raise InvalidPlan("no request of the past to estimate from: read a longer time")
    weights = np.array([weight(each, plan) for each in past])
    endings = [ending(each, plan) for each in past]
    drawn = np.array([each.probability > 0 for each in past])
    known = np.array([each is not None for each in endings]) & (weights > 0)
    comparable = [each for each, is_known in zip(endings, known, strict=True) if is_known and each is not None]
    total = float(weights.sum())
    return Estimate(
        requests=len(past),
        undrawn=int((~drawn).sum()),
        effective=total**2 / float((weights**2).sum()) if total else 0.0,
        never_drawn=max(0.0, 1 - float(weights[drawn].mean())) if drawn.any() else 0.0,
        unknown=1 - float(weights[known].sum()) / total if total else 1.0,
        figures=_figures(comparable, weights[known], slo_ms, np.random.default_rng(seed)),
    )


def as_it_went(past: Sequence[Past], slo_ms: float, seed: int) -> Mapping[str, Interval]:
    """The figures of what really happened."""
    endings = [Ending(p.last_level, p.latency_ms, p.work_ms, p.is_completed, p.went_on) for p in past]
    return _figures(endings, np.ones(len(past)), slo_ms, np.random.default_rng(seed))


def _figures(
    endings: Sequence[Ending], weights: Floats, slo_ms: float, dice: np.random.Generator
) -> dict[str, Interval]:
    if not endings:
        return {}
    latency, work = np.array([f.latency_ms for f in endings]), np.array([f.work_ms for f in endings])
    again = np.array([float(f.is_escalated) for f in endings])
    done = np.array([f.is_completed for f in endings])
    late = np.where(done, latency > slo_ms, True).astype(float)
    measures: dict[str, Callable[[Floats], float]] = {
        "violations": lambda w: float(np.average(late, weights=w)),
        "latency_p50_s": lambda w: _quantile(latency, w * done, 0.5) / 1000,
        "latency_p95_s": lambda w: _quantile(latency, w * done, 0.95) / 1000,
        "work_ms": lambda w: float(np.average(work, weights=w)),
        "painted_again": lambda w: float(np.average(again, weights=w)),
    }
    for level in sorted({each.level for each in endings if each.level}):
        on_level = np.array([float(each.level == level) for each in endings])
        measures[f"answered by {level}"] = partial(_share, on_level * done, done)
    samples: list[list[float]] = []
    for _ in range(RESAMPLES):  # Poisson bootstrap: as the multinomial one, without a matrix of all resamples
        times = weights * dice.poisson(1.0, len(endings))
        if times.any():
            samples.append([measure(times) for measure in measures.values()])
    return {
        name: Interval(measure(weights), *_middle(drawn))
        for (name, measure), drawn in zip(measures.items(), np.transpose(samples), strict=True)
    }


def _middle(drawn: Floats) -> tuple[float, float]:
    """Return the interval of 95 % of the resamples that have the figure; NaN where none has."""
    known = drawn[~np.isnan(drawn)]
    low, high = np.quantile(known, [0.025, 0.975]) if known.size else (math.nan, math.nan)
    return float(low), float(high)


def _share(part: Floats, whole: Floats, weights: Floats) -> float:
    of = float((whole * weights).sum())
    return float((part * weights).sum()) / of if of else math.nan


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    """The smallest value with at least this share of the weight at or below it; NaN where nothing weighs."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    if not below[-1]:
        return math.nan
    return float(values[order][np.searchsorted(below, share * below[-1])])
