"""How a worker takes jobs: how many at once, which of them share a call, and how fast it has been of late."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from planner.catalog.entries import Variant, run_ms

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

WINDOW_MS = 200  # of work is taken at once: a quick variant pays for acks and commits once a window, a slow one a job
PACE_OVER = 16  # jobs: how many back the pace remembers


def window(variant: Variant, most: int) -> int:
    """Jobs to take at once, where the plan lets `most` share a call: whole calls, one at least."""
    return most * max(1, int(WINDOW_MS / run_ms(variant, most)))


def ahead_ms(run_ms: float, most: int) -> float:
    """Work that may wait before a worker whose jobs are pulled, where a picture takes `run_ms` and `most` share a call.

    The next call's, so that it is full when the one in hand ends; nothing where pictures are painted one by one, as a
    job bound to a busy worker can only lose (facts/peers.md 3.5: keep the fetch of a stage at one batch).
    """
    return most * run_ms if most > 1 else 0.0


def alike(jobs: Iterable[T], how: Callable[[T], K]) -> list[list[T]]:
    """Those that are painted alike share a call, in the order of their first: `how` tells what must be the same."""
    groups: dict[K, list[T]] = {}
    for job in jobs:
        groups.setdefault(how(job), []).append(job)
    return list(groups.values())


def paced(pace: float, took_ms: float, own_ms: float) -> float:
    """Time of the jobs of late over the variant's own `own_ms`, after one that takes `took_ms`: options and drafts."""
    return pace + (took_ms / own_ms - pace) / PACE_OVER
