"""How calls and loads vary around their profiled times, and which workers are slower than others.

A call takes its profiled time times a log-normal factor with mean 1, so that a plan's expected times are right on
average; a straggler takes `straggler_factor` times as long again. Loads vary likewise. What was not measured does not
vary.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import Any

from planner.catalog.model import Catalog
from replay.simulation.draws.chance import uniform

DRAWS = 4096  # of a factor, after which they come again
MEASURED, ASKED, UNKNOWN, IN_HOPS = (
    "measured",
    "asked for",
    "not measured: none",
    "in the measured times between processes",
)

Spread = Mapping[int, float]
"""Images in a call, as measured -> coefficient of variation of its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """The variation of run times and load times around the catalog's; none by default."""

    run_cv: Mapping[str, Spread] = field(default_factory=dict)  # by variant; one that is not in it does not vary
    origin: str = UNKNOWN  # of `run_cv`
    straggler_share: float = 0.0  # of calls
    straggler_factor: float = 1.0  # by which these take longer
    load_cv: float = 0.0  # coefficient of variation of load times
    speeds: tuple[float, ...] = ()  # of workers in order, repeated; 1: as profiled. Loading is as fast on all

    def __post_init__(self) -> None:
        assert 0 <= self.straggler_share <= 1, self.straggler_share
        assert self.straggler_factor >= 1, self.straggler_factor
        assert all(speed > 0 for speed in self.speeds), self.speeds

    def speed_of(self, number: int) -> float:
        """Return the speed of a worker by its number in the fleet."""
        return self.speeds[number % len(self.speeds)] if self.speeds else 1.0

    def as_table(self) -> dict[str, Any]:
        """Return what a report says of it."""
        return asdict(self)


NO_VARIATION = Variation()


def measured_variation(catalog: Catalog) -> Variation:
    """Return run times that vary as the catalog's profile measured it; none without a profile."""
    spread = catalog.measured.run_cv if catalog.measured else {}
    return Variation(run_cv=spread, origin=MEASURED if spread else UNKNOWN)


class RunTimes:
    """The factors of one run, drawn in the order of calls and of loads."""

    def __init__(self, variation: Variation, seed: int) -> None:
        self._variation, self._seed = variation, seed
        self.varies = bool(variation.run_cv) or (variation.straggler_share > 0 and variation.straggler_factor > 1)
        self._factors = lru_cache(maxsize=None)(
            lambda cv: _log_normal(cv, uniform(seed, "run-time", 0, DRAWS).tolist())
        )
        self._cv = lru_cache(maxsize=None)(self._cv_of)
        self._slow: list[bool] = (uniform(seed, "straggler", 0, DRAWS) < variation.straggler_share).tolist()
        self._loads = _log_normal(variation.load_cv, uniform(seed, "load-time", 0, DRAWS).tolist())
        self._calls = self._loaded = 0

    def call_factor(self, variant: str, images: int) -> float:
        """Return the time of the next call, for `images` images, as a multiple of the profiled time."""
        if not self.varies:
            return 1.0
        self._calls = (self._calls + 1) % (DRAWS - 1)  # not in step with what else repeats after DRAWS
        factor = self._factors(self._cv(variant, images))[self._calls]
        return factor * self._variation.straggler_factor if self._slow[self._calls] else factor

    def load_factor(self) -> float:
        """Return by how much the next load takes longer than profiled."""
        self._loaded = (self._loaded + 1) % DRAWS
        return self._loads[self._loaded]

    def _cv_of(self, variant: str, images: int) -> float:
        """The spread at the largest measured number of images that is not above this one, else at the smallest."""
        spread = self._variation.run_cv.get(variant, {})
        below = [size for size in spread if size <= images] or sorted(spread)[:1]
        return spread[max(below)] if below else 0.0


def _log_normal(cv: float, ranks: list[float]) -> list[float]:
    """Factors with mean 1 and this coefficient of variation, at these ranks in [0, 1)."""
    if cv <= 0:
        return [1.0] * len(ranks)
    sigma = math.sqrt(math.log1p(cv * cv))
    normal = NormalDist(-sigma * sigma / 2, sigma)
    return [math.exp(normal.inv_cdf((rank + 0.5 / DRAWS) / (1 + 1 / DRAWS))) for rank in ranks]
