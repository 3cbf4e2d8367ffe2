"""How long a worker waits for its lookups among many rows, while other processes keep torch busy."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from agents.worker.lookups import Lookups, Sought
from planner.reuse.neighbour import Miss
from planner.reuse.steps import Decision, FullRun, Reuse
from planner.reuse.terms import Terms
from streams.store.latents import LatentSpace


def retrieval(
    lookups: Lookups, jobs: Sequence[Sought], terms: Terms, space: LatentSpace, advance: Callable[[int], object]
) -> dict[str, Any]:
    """Look up jobs one after the other, as a worker does between images. Returns p50, p99 (ms), hits and failures."""
    took, hits, unanswered = list[float](), 0, 0
    for each in jobs:
        took_ms, decision = timed_lookup(lookups, each, terms, space)
        took.append(took_ms)
        hits += isinstance(decision, Reuse)
        unanswered += is_unanswered(decision)
        advance(1)
    return {**percentiles(took), "lookups": len(took), "hits": hits, "unanswered": unanswered}


def timed_lookup(lookups: Lookups, job: Sought, terms: Terms, space: LatentSpace) -> tuple[float, Decision]:
    """Look up one job; return the ms that the worker waited, and the decision."""
    began = time.perf_counter()
    (begun,) = lookups.find([job], terms, space)
    return 1000 * (time.perf_counter() - began), begun.decision


def is_unanswered(decision: Decision) -> bool:
    """Whether the stores gave no answer in time, or were not asked."""
    return isinstance(decision, FullRun) and decision.why in (Miss.TIMEOUT, Miss.FAILED, Miss.BREAKER)


def timed(calls: Mapping[str, Callable[[int], object]], count: int) -> dict[str, dict[str, float]]:
    """Time each call with the numbers 0 .. count - 1, all of them in turns: name -> p50 and p99 in ms."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for at in range(count):
        for name, call in calls.items():
            began = time.perf_counter()
            call(at)
            took[name].append(1000 * (time.perf_counter() - began))
    return {name: percentiles(each) for name, each in took.items()}


def percentiles(took_ms: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile, in ms."""
    return {f"p{rank}": round(float(np.percentile(took_ms, rank)), 3) for rank in (50, 99)}
