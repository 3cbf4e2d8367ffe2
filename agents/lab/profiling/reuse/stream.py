"""The stream of requests that caching is measured on, and which earlier one each may begin from."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agents.lab.evaluation.generation.scope import stream_of_draws
from agents.lab.profiling.reuse.observed import Neighbours
from agents.lab.world.scene import Scene
from agents.lab.world.sessions import DIFFUSIONDB, requests
from agents.lab.world.stream import Stream
from agents.profiling.seeded_prompts import SeededPrompts
from planner.reuse.guard import Compare, Comparison


class Requests(NamedTuple):
    """Requests in the order of time."""

    asked: SeededPrompts  # prompts, the seed of each image's noise, and the captions that prompts state
    scenes: tuple[Scene, ...]


def draw_requests(seed: int, count: int, stream: Stream) -> Requests:
    """Draw requests that repeat and are edited as people's are, each with a seed of noise; the first are always alike.

    So a longer stream goes on where a shorter one was measured.
    """
    words, noise = (np.random.default_rng([*stream_of_draws(seed, "reuse"), part]) for part in range(2))
    drawn = requests(words, count, DIFFUSIONDB, stream)
    asked = SeededPrompts(
        prompts=tuple(each.prompt for each in drawn),
        seeds=tuple(int(noise.integers(2**31)) for _ in range(count)),
        captions=tuple(each.scene.caption for each in drawn),
    )
    return Requests(asked, tuple(each.scene for each in drawn))


def find_neighbours(prompts: Sequence[str], vectors: np.ndarray, compare: Compare, seed: int) -> Neighbours:
    """Find each request's nearest earlier one by unit vectors [n, d]; of several alike the latest, as a store may."""
    n = len(prompts)
    nearest, similarity, unrelated = np.full(n, -1), np.full(n, np.nan), np.full(n, -1)
    comparisons: list[Comparison | None] = [None] * n
    for at in range(n):
        if at:
            near = vectors[:at] @ vectors[at]
            nearest[at] = at - 1 - int(near[::-1].argmax())
            similarity[at] = min(1.0, float(near[nearest[at]]))
            comparisons[at] = compare(prompts[at], prompts[nearest[at]])
        others = [other for other in range(at) if prompts[other] != prompts[at]]
        unrelated[at] = others[int(np.random.default_rng([seed, at]).integers(len(others)))] if others else -1
    return Neighbours(
        nearest=nearest,
        similarity=similarity,
        comparisons=tuple(comparisons),
        is_exact=np.array([source >= 0 and prompts[at] == prompts[source] for at, source in enumerate(nearest)]),
        unrelated=unrelated,
    )
