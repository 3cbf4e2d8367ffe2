"""Run times as they show in what is served, against those that the catalog profiled.

A factor is the median over the last jobs of a variant, so that a straggler, or a request of another size, moves it
little. The jobs of a call took the same time, so that calls count, not jobs. Source: DiffServe 3.1, "collects runtime
information from the workers to update model execution profiles".
"""

import math
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Final, NamedTuple

from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog

JOBS: Final = 200  # of a variant that are looked back on
MIN_CALLS: Final = 3  # fewest calls by which a run time is believed against the profile, by planner and workers alike
TOLERANCE: Final = 0.02  # within which a profile is taken for right: plans need not change with every breath
SURE_CALLS: Final = 20  # of which the median is known to less than that; fewer must differ by more, as their root


class ObservedRunTime(NamedTuple):
    """A variant's run time, as a multiple of its profile's."""

    variant: str
    factor: float  # > 0; median over the last jobs
    calls: float  # that these came from, > 0: where the other images of a call went elsewhere, it counts in part


class RunTimes:
    """The last run times of each variant; one thread may add while another reads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._samples: defaultdict[str, deque[tuple[float, int]]] = defaultdict(lambda: deque(maxlen=JOBS))

    def clear(self) -> None:
        """A reader begins again with the window."""
        self._samples.clear()

    def add(self, level: str, batch: int, refine_from_step: int, generate_ms: float) -> None:
        """Add a job of one image that ran all steps but the first `refine_from_step`, in a call for `batch` images."""
        variant = self._catalog.variants.get(variant_of(level))
        if variant is not None and batch >= 1 and 0 <= refine_from_step < variant.steps and generate_ms > 0:
            self._samples[variant.name].append((generate_ms / run_ms(variant, batch, refine_from_step), batch))

    def observed(self) -> tuple[ObservedRunTime, ...]:
        """Return the factors of the variants of which enough calls were seen, by name."""
        jobs = sorted((name, list(own)) for name, own in list(self._samples.items()))
        found = (
            ObservedRunTime(name, median(factor for factor, _ in own), math.fsum(1 / batch for _, batch in own))
            for name, own in jobs
            if own
        )
        return tuple(each for each in found if each.calls >= MIN_CALLS)


def factors_of(seen: Sequence[ObservedRunTime]) -> dict[str, float]:
    """Variant -> run time as a multiple of its profile's, of those whose profile is wrong."""
    return {each.variant: each.factor for each in seen if abs(each.factor - 1) > _tolerance(each.calls)}


def _tolerance(calls: float) -> float:
    return TOLERANCE * math.sqrt(max(1.0, SURE_CALLS / calls))


ROUNDING: Final = 1e-12  # so that a level is not a last digit below the one before it


def as_served(catalog: Catalog, seen: Sequence[ObservedRunTime]) -> Catalog:
    """Return the catalog with the run times that were seen; the same one where they are as profiled.

    Levels stay in their order: one that was seen to be slower than a dearer one makes that as slow.
    """
    wrong = factors_of(seen)
    if not wrong:
        return catalog
    slowest_ms = 0.0
    for name, variant in sorted(catalog.variants.items(), key=lambda each: run_ms(each[1], 1)):
        own_ms = run_ms(variant, 1)
        slowest_ms = max(slowest_ms, wrong.get(name, 1.0) * own_ms)
        if slowest_ms > wrong.get(name, 1.0) * own_ms:
            wrong = {**wrong, name: slowest_ms / own_ms * (1 + ROUNDING)}
    variants = {
        name: replace(variant, latency_ms={b: wrong.get(name, 1.0) * ms for b, ms in variant.latency_ms.items()})
        for name, variant in catalog.variants.items()
    }
    return replace(catalog, variants=variants)
