"""The hybrid ranker: mean rank by the best prompt ranker and the best discriminator, both chosen before the test."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from agents.learning.recovery import overall_recovery
from schemas.errors import PochadeError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hybrid:
    """The two chosen rankers, and their scores on the calibration prompts, by which other scores become ranks.

    A rank is thus a function of one score alone, as in serving, where the other prompts are not known.
    """

    prompt: str  # a classifier
    image: str  # a discriminator
    prompt_scale: np.ndarray  # [m] its scores on the calibration prompts
    image_scale: np.ndarray  # [m]
    weight: float = 0.5  # of the prompt's rank, 0..1

    def scores(self, prompt: np.ndarray, image: np.ndarray) -> np.ndarray:
        """[n] in 0..1 from the two rankers' scores [n]; higher = light is good enough."""
        return self.weight * _rank(prompt, self.prompt_scale) + (1 - self.weight) * _rank(image, self.image_scale)


def choose_hybrid(
    prompt: Mapping[str, np.ndarray],
    image: Mapping[str, np.ndarray],
    light: np.ndarray,
    heavy: np.ndarray,
    *,
    weight: float = 0.5,
) -> Hybrid:
    """The hybrid of the prompt ranker and the image ranker that recover most over all shares of the calibration set.

    All arrays are [m], of calibration prompts: never of those the figures are reported on. Give it the learned
    classifiers; a baseline that should only be compared against stays out. Raises PochadeError if one kind is missing.
    """
    if not prompt or not image:
        raise PochadeError(f"a hybrid needs a ranker of each kind: got prompt {list(prompt)}, image {list(image)}")

    def best(rankers: Mapping[str, np.ndarray]) -> str:
        merit = {name: overall_recovery(scores, light, heavy) for name, scores in rankers.items()}
        return max(merit, key=lambda name: -math.inf if math.isnan(merit[name]) else merit[name])

    first, second = best(prompt), best(image)
    return Hybrid(
        prompt=first,
        image=second,
        prompt_scale=prompt[first],
        image_scale=image[second],
        weight=weight,
    )


def _rank(scores: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """[n] in 0..1: the mid-rank among `scale`, linear between its values, so that close scores stay apart."""
    values, first = np.unique(scale, return_index=True)
    return np.asarray(np.interp(scores, values, (stats.rankdata(scale)[first] - 0.5) / len(scale)))
