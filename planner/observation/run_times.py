"""Run times as they show in what is served, against those that the catalog profiled.

A factor is the median over the last jobs of a variant, so that a straggler, or a request of another size, moves it
little. Source: DiffServe 3.1, "collects runtime information from the workers to update model execution profiles".
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Final, NamedTuple

from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog

JOBS: Final = 200  # of a variant that are looked back on
MIN_JOBS: Final = 20  # before a factor is believed
TOLERANCE: Final = 0.02  # within which a profile is taken for right: plans need not change with every breath


class SeenRunTime(NamedTuple):
    """A variant's run time, as a multiple of its profile's."""

    variant: str
    factor: float  # > 0; median over `jobs`
    jobs: int


class RunTimes:
    """The last run times of each variant; one thread may add while another reads."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._factors: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=JOBS))

    def clear(self) -> None:
        """A reader begins again with the window."""
        self._factors.clear()

    def add(self, level: str, batch: int, refine_from_step: int, generate_ms: float) -> None:
        """Add a job of one image that ran all steps but the first `refine_from_step`, in a call for `batch` images."""
        variant = self._catalog.variants.get(variant_of(level))
        if variant is not None and batch >= 1 and 0 <= refine_from_step < variant.steps and generate_ms > 0:
            self._factors[variant.name].append(generate_ms / run_ms(variant, batch, refine_from_step))

    def seen(self) -> tuple[SeenRunTime, ...]:
        """Return the factors of the variants of which enough jobs were seen, by name."""
        known = sorted((name, list(factors)) for name, factors in list(self._factors.items()))
        return tuple(SeenRunTime(name, median(own), len(own)) for name, own in known if len(own) >= MIN_JOBS)


def factors_of(seen: Sequence[SeenRunTime]) -> dict[str, float]:
    """Variant -> run time as a multiple of its profile's, of those whose profile is wrong."""
    return {each.variant: each.factor for each in seen if abs(each.factor - 1) > TOLERANCE}


def as_served(catalog: Catalog, seen: Sequence[SeenRunTime]) -> Catalog:
    """Return the catalog with the run times that were seen; the same one where they are as profiled."""
    wrong = factors_of(seen)
    if not wrong:
        return catalog
    variants = {
        name: replace(variant, latency_ms={b: wrong.get(name, 1.0) * ms for b, ms in variant.latency_ms.items()})
        for name, variant in catalog.variants.items()
    }
    return replace(catalog, variants=variants)
