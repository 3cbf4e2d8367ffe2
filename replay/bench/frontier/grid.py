"""The grid: catalogs with their fleets, traces, truths, and the swept settings of each policy.

Loads fit the catalog. A trace is scaled so that at its peak (the busiest 10 s) the fleet, nine tenths busy, can
generate a quarter of the requests on the best level and the rest on the cheapest: all on the best would overload it,
all on the cheapest would not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from planner.catalog.entries import Variant, run_ms
from planner.catalog.model import Catalog
from replay.bench.papers.runs.arrivals import HELD_OUT, TUNING
from replay.bench.papers.runs.names import (
    ARGUS,
    DIFFSERVE,
    HADIS,
    HEAVY,
    JOINT,
    LIGHT,
    PAC,
    PROTEUS,
    RANDOM,
    SOMMELIER,
    STATIC,
)  # fmt: skip
from replay.traces import Trace

Parameters = tuple[tuple[str, float], ...]

BUSY: Final = 0.9  # of the fleet, at the peak
HEAVY_AT_PEAK: Final = 0.25  # share of the requests
PEAK_MS: Final = 10_000.0
LEVELS: Final = (0.01, 0.02, 0.05)  # violations at which policies are compared
REDRAWS: Final = 10
TUNING_REDRAWS: Final = 3
FIRST_TUNING_SEED: Final = 1000  # so that no redraw that settings are chosen on is judged
BUDGET: Final = 10  # settings of each policy that are swept
FACTORS: Final = (0.5, 0.65, 0.8, 1.05, 1.4)  # over-provisioning
JOINTS: Final = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5)  # joint reckons with what is uncertain by itself
LATE: Final = (1.0, 1.1, 1.25)  # of these also with lateness at twice its price
MANY_FACTORS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 1.05, 1.2, 1.4, 1.7, 2.0)
OF_PEAK: Final = (0.6, 0.7, 0.8, 0.9, 1.05)  # of the true peak, which diffserve-static is given
TRACES: Final = (*TUNING, *HELD_OUT)
TRUTHS: Final = ("catalog", "slow", "curve")
# left out: NIRVANA generates all on one level where nothing is reused, MLORA and its baseline plan levels as PROTEUS
# does, OCTOAI and its baseline are Clipper's heavy end in a fleet that stays as it is
COMPARED: Final = (ARGUS, HEAVY, LIGHT, DIFFSERVE, STATIC, HADIS, JOINT, PAC, PROTEUS, RANDOM, SOMMELIER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A catalog with its fleet and latency target."""

    catalog: str
    workers: int
    slo_s: float
    heavy: tuple[str, ...]  # variants that are slower than profiled in the truth `slow`


FLEETS: Final = (
    Fleet(catalog="diffserve-sdturbo", workers=16, slo_s=5, heavy=("sd15",)),
    Fleet(catalog="diffserve-sdxlltn", workers=16, slo_s=15, heavy=("sdxl",)),
    Fleet(catalog="hadis-l40s", workers=16, slo_s=60, heavy=("sd35-medium", "sd35-large")),
    Fleet(catalog="tiny", workers=4, slo_s=2, heavy=("heavy",)),
)


class Setting(NamedTuple):
    """A policy with what is swept of it."""

    policy: str
    parameters: Parameters

    @property
    def words(self) -> str:
        """The parameters in words."""
        return ", ".join(f"{name} {value:g}" for name, value in self.parameters) or "as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One run: a policy with its parameters on one redraw of a trace, where this is true. Equal cells run alike."""

    catalog: str
    trace: str
    truth: str  # of TRUTHS
    policy: str
    parameters: Parameters
    seed: int

    @property
    def key(self) -> str:
        """Name of the cell, unlike any other's."""
        own = ",".join(f"{name}={value:g}" for name, value in self.parameters)
        return f"{self.catalog}/{self.trace}/{self.truth}/{self.policy}/{own}/{self.seed}"

    @classmethod
    def of_key(cls, key: str) -> "GridCell":
        """Return the cell of this name; parameters have the digits that the name has."""
        catalog, trace, truth, policy, own, seed = key.split("/")
        given = (assignment.partition("=") for assignment in own.split(",") if assignment)
        parameters = tuple((name, float(value)) for name, _, value in given)
        return cls(catalog=catalog, trace=trace, truth=truth, policy=policy, parameters=parameters, seed=int(seed))

    @property
    def setting(self) -> Setting:
        """The policy with its parameters."""
        return Setting(self.policy, self.parameters)


def fleet_of(catalog: str) -> Fleet:
    """Return the fleet of a catalog of the grid."""
    return next(fleet for fleet in FLEETS if fleet.catalog == catalog)


def truth_of(fleet: Fleet, truth: str) -> tuple[str, ...]:
    """Return the aspects of a truth, as `pochade bench simulate --truth` takes them."""
    if truth == "slow":
        return tuple(f"time.{variant}=1.2" for variant in fleet.heavy)
    return ("choice=0.8", "confidence=0.8333") if truth == "curve" else ()


def peak_rps(catalog: Catalog, workers: int) -> float:
    """Return the demand that a fleet carries at its peak, as this module's rule says."""
    light, heavy = (_image_s(variant) for variant in (catalog.cheapest(), catalog.best()))
    return BUSY * workers / ((1 - HEAVY_AT_PEAK) * light + HEAVY_AT_PEAK * heavy)


def _image_s(variant: Variant) -> float:
    """Return the shortest time of a worker for an image in s, over the batches that were measured."""
    return min(run_ms(variant, batch) / batch for batch in variant.latency_ms) / 1000


def scale_of(trace: Trace, catalog: Catalog, workers: int) -> float:
    """Return the factor by which a trace is scaled to the fleet, to three digits."""
    counts = np.bincount((trace.arrival_ms // PEAK_MS).astype(np.int64))
    return float(f"{peak_rps(catalog, workers) / (1000 * counts.max() / PEAK_MS):.3g}")


def swept(policy: str, peak: float) -> list[Setting]:
    """Return the settings of a policy that are tried: over-provisioning, and its own parameter; BUDGET of them."""
    return [Setting(policy, tuple(sorted(own))) for own in _swept(policy, peak)]


def _swept(policy: str, peak: float) -> list[Parameters]:
    own: Mapping[str, tuple[str, Sequence[float | None]]] = {
        DIFFSERVE: ("queue_factor", (None, 1.0)),
        HADIS: ("queue_safety", (None, 0.6)),
        PROTEUS: ("batch", (None, 1.0)),
        SOMMELIER: ("drain_s", (None, 3.0)),
    }
    if policy in own:
        name, values = own[policy]
        return [
            (("overprovision", factor), *(() if value is None else ((name, value),)))
            for factor in FACTORS
            for value in values
        ]
    if policy == JOINT:
        as_it_is: list[Parameters] = [(("overprovision", factor),) for factor in JOINTS]
        return as_it_is + [(("late", 2.0), ("overprovision", factor)) for factor in LATE]
    if policy == STATIC:
        given = round(peak, 3)
        return [(("batch", b), ("overprovision", f), ("peak_rps", given)) for f in OF_PEAK for b in (1.0, 4.0)]
    if policy == RANDOM:
        return [(("batch", b), ("heavy_share", share)) for share in (0.05, 0.1, 0.15, 0.2, 0.3) for b in (1.0, 4.0)]
    if policy in (LIGHT, HEAVY):
        return [(), *((("batch", batch),) for batch in (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0))]
    assert policy in (ARGUS, PAC), f"no sweep of {policy}"
    return [(("overprovision", factor),) for factor in MANY_FACTORS]
