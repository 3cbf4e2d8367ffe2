"""What a worker decides for itself: which jobs it takes, which share a call, and what it tells of the work in hand.

How many jobs it takes at once (`window`), how fast it has been of late (`paced`), how long its work takes yet
(`left_ms`), and when a call hangs (`hangs`).
"""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from planner.catalog.entries import Variant, run_ms

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

WINDOW_MS = 200  # of work is taken at once: a quick variant pays for acks and commits once a window, a slow one a job
PACE_OVER = 16  # jobs: how many back the pace remembers
HANGING = "hanging"  # the state of a worker whose call hangs: it is there, but takes no new jobs
TIMES, LEAST_MS = 3.0, 2000.0  # of what the work was to take, and beside that: later than both together it hangs


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


def hangs(in_hand_ms: float, elapsed_ms: float) -> bool:
    """Whether work that was to take `in_hand_ms` is so late that nobody should wait for it."""
    return elapsed_ms > TIMES * in_hand_ms + LEAST_MS


def told_state(state: str, in_hand_ms: float, elapsed_ms: float) -> str:
    """What a worker in this state tells of itself while it has work in hand."""
    return HANGING if hangs(in_hand_ms, elapsed_ms) else state


def left_ms(in_hand_ms: float, elapsed_ms: float) -> float:
    """What it takes yet: what is late may be late by as much again, and is not done; what hangs begins anew."""
    return in_hand_ms if hangs(in_hand_ms, elapsed_ms) else abs(in_hand_ms - elapsed_ms)
