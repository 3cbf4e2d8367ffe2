"""Plays the stream again by the rules of serving: what was reused is not stored, so that nobody begins from it."""

from typing import NamedTuple

import numpy as np

from agents.lab.profiling.reuse.floors import skipped
from agents.lab.profiling.reuse.observed import Observed
from agents.lab.profiling.reuse.stream import Compare
from planner.reuse.terms import Floors, GuardShares


class Replayed(NamedTuple):
    """What the requests of a stream skip."""

    steps: np.ndarray  # int [n]: K; 0: all steps are run
    is_exact: np.ndarray  # bool [n]: it began from an image of the same prompt


def replay(seen: Observed, floors: Floors, guard: GuardShares, compare: Compare, route: float) -> Replayed:
    """Let each request begin from the nearest stored one, if floors, guard and the route's share allow it.

    The index is empty at first, and every image that ran all its steps enters it.
    """
    stored: list[int] = []
    steps, is_exact = np.zeros(seen.count, int), np.zeros(seen.count, bool)
    for at, prompt in enumerate(seen.prompts):
        if stored:
            near = seen.vectors[stored[::-1]] @ seen.vectors[at]  # the latest first: of several alike it is taken
            source = stored[::-1][int(near.argmax())]
            similarity = min(1.0, float(near.max()))
            if floors.share(similarity) > 0.0:
                compared = compare(prompt, seen.prompts[source])
                steps[at] = skipped(route, floors, guard, similarity, compared, seen.steps)
            is_exact[at] = prompt == seen.prompts[source]
        if not steps[at]:
            stored.append(at)
    return Replayed(steps, is_exact)
