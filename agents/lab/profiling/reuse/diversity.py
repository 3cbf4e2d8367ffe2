"""Diversity: how far apart several images of one prompt lie, each with a seed of its own, by where they begin."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from agents.lab.profiling.reuse.floors import bounded
from agents.profiling.statistics.intervals import Resampling, mean
from planner.catalog.caching import Diversity

NOISE, NEIGHBOURS, NEIGHBOUR = "noise", "neighbours", "neighbour"
IMAGES: Final = 8  # of each prompt
PROMPTS: Final = 12


def diversity(begun: str, share: float, features: np.ndarray, how: Resampling) -> Diversity:
    """Mean distance of two images of a prompt, over prompts; features [prompts, images, d]."""
    distances = np.array([spread(each) for each in features])
    return Diversity(begun, share, len(features), features.shape[1], bounded(mean(distances, how)))


def spread(features: np.ndarray) -> float:
    """Mean Euclidean distance of two of m >= 2 rows of [m, d]."""
    apart = np.linalg.norm(features[:, None] - features[None], axis=-1)
    return float(apart[np.triu_indices(len(features), 1)].mean())


def prompts_to_vary(prompts: Sequence[str], count: int = PROMPTS) -> np.ndarray:
    """int [m]: up to `count` different prompts of the later half, evenly, which have earlier ones to begin from."""
    later = [at for at in range(len(prompts) // 2, len(prompts)) if prompts[at] not in prompts[:at]]
    places = np.linspace(0, len(later) - 1, min(count, len(later))).round().astype(int)
    return np.asarray(np.array(later, int)[places])


def different_neighbours(prompts: Sequence[str], vectors: np.ndarray, at: int, count: int = IMAGES) -> np.ndarray:
    """int [count]: the nearest earlier requests of different prompts; fewer where there are not as many."""
    found: list[int] = []
    for other in np.argsort(-(vectors[:at] @ vectors[at]), kind="stable"):
        if prompts[other] not in {prompts[each] for each in found}:
            found.append(int(other))
        if len(found) == count:
            break
    return np.array(found, int)
