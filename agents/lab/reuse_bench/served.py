"""The answers to a stream of requests, and their figures: steps saved, hits, misses, and the loss of quality."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from agents.lab.evaluation.statistics.paired import paired_difference
from agents.lab.profiling.reuse.observed import EXACT, Marks
from agents.profiling.statistics.intervals import Estimate, Resampling, mean
from schemas.messages import StageReuse

_DIGITS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """A stream of n requests in the order of time. The marks are of its m hits, in this order, on the same seeds."""

    prompts: tuple[str, ...]
    reuse: tuple[StageReuse, ...]  # what the worker says of each
    begun: Marks  # [m] begun from a stored latent at step K
    noise: Marks  # [m] all N steps from noise
    fewer: Marks | None = None  # [m] N - K steps from noise; None: the variant's steps cannot be set
    misses: Counter[str] = field(default_factory=Counter)  # reason -> requests

    @property
    def hits(self) -> np.ndarray:
        """bool [n]: the requests that began from a stored latent."""
        return np.array([each.step > 0 for each in self.reuse])

    @property
    def repeats(self) -> np.ndarray:
        """bool [n]: the requests whose prompt came before, word for word."""
        seen, found = set[str](), list[bool]()
        for prompt in self.prompts:
            found.append(prompt in seen)
            seen.add(prompt)
        return np.array(found)

    @property
    def exact_hits(self) -> np.ndarray:
        """bool [n]: the requests that began from the latent of their own prompt."""
        same = np.array([(each.similarity or 0.0) >= EXACT for each in self.reuse])
        return np.asarray(self.hits & self.repeats & same)


def misses_of(reuse: Sequence[StageReuse]) -> Counter[str]:
    """Return how many requests ran all their steps, by the reason that their results state."""
    return Counter(each.miss for each in reuse if not each.step)


def figures(served: Served, seed: int) -> dict[str, Any]:
    """Return the figures of a stream; shares are of all its requests, intervals of 95 %. `seed`: of resampling."""
    how, count = Resampling(seed=seed), len(served.prompts)
    saved = np.array([each.step / each.steps if each.steps else 0.0 for each in served.reuse])
    exact = served.exact_hits
    return {
        "requests": count,
        "saved_steps_share": _share(float((saved * ~exact).sum()), count),
        "saved_exact_share": _share(float((saved * exact).sum()), count),
        "exact_share": _share(int(served.repeats.sum()), count),
        "hit_rate": _share(int(served.hits.sum()), count),
        "exact_hit_rate": _share(int(exact.sum()), count),
        "misses": dict(served.misses.most_common()),
        "quality_delta": _over_all(served, count),
        "facts_delta": _facts_over_all(served, count, how),
        "against_fewer_steps": _against_fewer(served, how),
        "unjudged_hits": int(np.isnan(served.begun.quality).sum()),
    }


NO_FIGURES: Final[dict[str, Any]] = dict.fromkeys(
    (
        "requests", "saved_steps_share", "saved_exact_share", "exact_share", "hit_rate", "exact_hit_rate", "misses",
        "quality_delta", "facts_delta", "against_fewer_steps", "unjudged_hits",
    )
)  # fmt: skip
"""The keys of `figures` where nothing was served."""


def with_interval(estimate: Estimate, **more: Any) -> dict[str, Any]:
    """Return `{value, ci: [low, high]}` and more; null for what there is too little to say of."""
    value, low, high = (
        None if np.isnan(end) else round(end, _DIGITS) for end in (estimate.value, estimate.low, estimate.high)
    )
    return {"value": value, "ci": None if low is None else [low, high], **more}


def _over_all(served: Served, count: int) -> dict[str, Any] | None:
    """The share of images in which all facts hold, reuse less none. A miss is the same image either way."""
    known = ~np.isnan(served.begun.quality)
    others = np.ones(count - len(known), bool)
    begun = np.concatenate([served.begun.quality[known] == 1, others])
    noise = np.concatenate([served.noise.quality[known] == 1, others])
    return with_interval(paired_difference(begun, noise), requests=len(begun)) if len(begun) else None


def _facts_over_all(served: Served, count: int, how: Resampling) -> dict[str, Any] | None:
    known = ~np.isnan(served.begun.facts)
    changes = served.begun.facts[known] - served.noise.facts[known]
    every = np.concatenate([changes, np.zeros(count - len(known))])
    return with_interval(_mean_change(every, how), requests=len(every)) if len(every) else None


def _against_fewer(served: Served, how: Resampling) -> dict[str, Any] | None:
    """Quality of hits, begun at K less N - K steps from noise, and the facts of the same."""
    if served.fewer is None:
        return None
    known = ~np.isnan(served.begun.quality)
    begun, fewer = (marks.at(known) for marks in (served.begun, served.fewer))
    quality = with_interval(paired_difference(begun.quality == 1, fewer.quality == 1), hits=int(known.sum()))
    return {**quality, "facts": with_interval(_mean_change(begun.facts - fewer.facts, how))}


def _mean_change(changes: np.ndarray, how: Resampling) -> Estimate:
    """The mean of changes in [-1, 1]. Where none is seen a bootstrap has no width: then the interval of a share."""
    if changes.any():
        return mean(changes, how)
    none = np.zeros(len(changes), bool)
    return paired_difference(none, none)


def _share(part: float, count: int) -> float | None:
    return round(part / count, _DIGITS) if count else None
