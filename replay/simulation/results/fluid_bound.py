"""The quality that no plan can beat on a trace: each planning interval is solved alone with known demand."""

from collections.abc import Callable
from typing import Any

import numpy as np

from planner.analysis.fluid_bound import Fluid, Fronts, fronts_of
from planner.catalog.bands import bounds_of
from planner.catalog.model import Catalog
from planner.catalog.quality import fid_of
from planner.observation.observation import Observation
from replay.simulation.setup import Setup


def fluid_bound(setup: Setup, arrivals_ms: np.ndarray, hardness: np.ndarray | None = None) -> dict[str, Any] | None:
    """Return the bound that no plan can beat on the trace, by planning interval; None without quality of levels.

    The mean over requests, on a scale that is no mean over images (FID) of the intervals' qualities. `hardness`:
    float64 [n], nan where it is not known; such requests count as spread evenly over it, and so do all without it.
    """
    catalog = setup.true_catalog
    if any(variant.quality is None for variant in catalog.variants.values()):
        return None
    fronts = fronts_of(catalog, Observation(now_ms=0, demand_rps=0.0, slo_ms=setup.slo_ms))
    if fronts is None:
        return None
    interval = (arrivals_ms // setup.period_ms).astype(np.int64)
    has_bands = len(fronts.by_band) > 1
    known = hardness if hardness is not None and has_bands and not np.isnan(hardness).all() else None
    fluid_in = _fluid_in(fronts, catalog, interval, known)
    counts = np.bincount(interval)
    served = np.array(
        [
            fluid_in(number).at(1000 * count / setup.period_ms, setup.workers)
            for number, count in enumerate(counts.tolist())
            if count
        ]
    )
    answered = counts[counts > 0] * served[:, 2]
    quality, least = float(np.average(served[:, 0], weights=answered)), float(answered.sum() / counts.sum())
    note = f"demand known, {setup.workers} workers without queues or switches, every {setup.period_ms / 1000:g} s"
    note += "" if known is None else ", hardness as the trace has it"
    return {
        "quality": round(quality, 6),
        "fid": fid_of(catalog, round(quality, 6)),
        "heavy_share": round(float(np.average(served[:, 1], weights=answered)), 6),
        "note": note + (f"; {1 - least:.1%} of the requests cannot be served" if least < 1 else ""),
    }


def _fluid_in(
    fronts: Fronts, catalog: Catalog, interval: np.ndarray, hardness: np.ndarray | None
) -> Callable[[int], Fluid]:
    """Return what gives the bound for the requests of a planning interval, by its number."""
    if hardness is None:  # spread evenly, and so the same in every interval
        fluid = fronts.mixed(np.diff(bounds_of(catalog)).tolist())
        return lambda _number: fluid
    shares = _shares_by_interval(np.array(bounds_of(catalog)), interval, hardness)
    return lambda number: fronts.mixed(shares[number].tolist())


def _shares_by_interval(bounds: np.ndarray, interval: np.ndarray, hardness: np.ndarray) -> np.ndarray:
    """Return float64 [intervals, bands]: the share of an interval's requests in each band; nan where it has none."""
    is_known, bands = ~np.isnan(hardness), len(bounds) - 1
    band = np.searchsorted(bounds[1:-1], hardness[is_known], side="right")
    intervals = int(interval.max()) + 1
    known = np.bincount(interval[is_known] * bands + band, minlength=intervals * bands).reshape(intervals, bands)
    unknown = np.bincount(interval[~is_known], minlength=intervals)[:, None] * np.diff(bounds)
    counts = known + unknown
    with np.errstate(invalid="ignore"):
        return np.asarray(counts / counts.sum(axis=1, keepdims=True))
