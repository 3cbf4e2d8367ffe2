"""Replays the stream by the rules of serving: an image that began from a stored one is not stored itself."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from agents.lab.profiling.reuse.floors import skipped
from agents.lab.profiling.reuse.observed import Observed
from planner.reuse.eviction import Entry, evicted, order_named
from planner.reuse.guard import Compare
from planner.reuse.terms import Floors, GuardShares


class Replayed(NamedTuple):
    """The steps that a stream's requests skip."""

    steps: np.ndarray  # int [n]: K; 0: all steps are run
    is_exact: np.ndarray  # bool [n]: it began from an image of the same prompt


class Capacity(NamedTuple):
    """The capacity of the index in images, and the order in which they leave."""

    entries: int
    eviction: str  # name of an order of `planner.reuse.eviction`


def replay(
    seen: Observed, floors: Floors, guard: GuardShares, compare: Compare, route: float, capacity: Capacity | None = None
) -> Replayed:
    """Let each request begin from the nearest stored one, if floors, guard and the route's share allow it.

    The index is empty at first, and every image that ran all its steps enters it. Without a capacity none leaves.
    """
    stored: list[int] = []
    entries: dict[int, Entry] = {}
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
            if steps[at]:
                used = entries[source]
                entries[source] = replace(used, uses=used.uses + 1, saved_steps=used.saved_steps + int(steps[at]))
        if not steps[at]:
            stored.append(at)
            entries[at] = Entry(key=f"{at:09d}", created_ms=at, bytes=1)
        if capacity and len(entries) > capacity.entries:
            for left in evicted(entries.values(), at, math.inf, capacity.entries, order_named(capacity.eviction)):
                stored.remove(left.created_ms)
                del entries[left.created_ms]
    return Replayed(steps, is_exact)
