"""Measures whether the time of a tenant's lookups shows it what another tenant asked for.

A tenant without rows asks in turns for prompts of which another tenant has rows, and for prompts without rows. If the
times of the two kinds differed, an observer could sort them by time; an AUC of .5 says that it cannot.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from agents.lab.reuse_bench.retrieval import is_unanswered, timed_lookup
from agents.learning.calibration import auc
from agents.profiling.statistics.intervals import Resampling, resampled
from agents.worker.lookups import Lookups, Sought
from planner.reuse.steps import Reuse
from planner.reuse.terms import Terms
from streams.store.latents import LatentSpace

TENANT: Final = "another-tenant"
PAIRS_AT_ONCE: Final = 25  # a worker's breaker stops asking after 60 lookups that save nothing


def other_tenants_lookups(
    opens: Callable[[], Lookups],
    stored: Sequence[Sought],
    unknown: Sequence[Sought],
    terms: Terms,
    space: LatentSpace,
    seed: int,
    advance: Callable[[int], object],
) -> dict[str, Any]:
    """Time lookups of both kinds in turns, for a tenant that has no rows; of each pair the first is drawn by a coin.

    `opens`: opens a worker's lookups, anew for every few pairs. `stored`: prompts of which another tenant has rows;
    `unknown`: as many prompts of which no tenant has.
    Returns `auc` of time as a sign of a stored prompt, its 95 % interval by pairs, the median times, and how many
    lookups hit or were not answered.
    """
    coins = np.random.default_rng(seed).random(len(stored)) < 0.5
    took, counts = np.zeros((len(stored), 2)), {"hits": 0, "unanswered": 0}
    pairs = list(zip(stored, unknown, strict=True))
    for first in range(0, len(pairs), PAIRS_AT_ONCE):
        with contextlib.closing(opens()) as lookups:
            for at in range(first, min(first + PAIRS_AT_ONCE, len(pairs))):
                for kind in (1, 0) if coins[at] else (0, 1):
                    asked = replace(pairs[at][kind], tenant=TENANT)
                    took[at, kind], decision = timed_lookup(lookups, asked, terms, space)
                    counts["hits"] += isinstance(decision, Reuse)
                    counts["unanswered"] += is_unanswered(decision)
                    advance(1)
    return timing_leak(took, seed) | counts


def timing_leak(took: np.ndarray, seed: int) -> dict[str, Any]:
    """Return how well times [pairs, 2] in ms separate lookups of stored prompts (the first column) from the others."""
    is_stored = np.tile([True, False], len(took))

    def statistic(rows: np.ndarray) -> np.ndarray:
        return np.array([auc(took[rows].ravel(), is_stored)])

    found = resampled(statistic, len(took), Resampling(seed=seed)).estimate(0)
    medians = np.median(took, axis=0)
    return {
        "pairs": len(took),
        "auc": round(found.value, 4),
        "ci": [round(found.low, 4), round(found.high, 4)],
        "stored_p50_ms": round(float(medians[0]), 3),
        "unknown_p50_ms": round(float(medians[1]), 3),
    }
