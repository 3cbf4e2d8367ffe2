"""Draws the classes of many requests at once, as the live classifier would predict them.

Of a strategy whose classifier was profiled, a request's class is drawn from the shares that the classifier predicts in
the request's band of hardness. Of any other strategy, and of a catalog without such a profile, it is cut from hardness:
the rule of the live classifier where no model predicts the class. A report says which of both it was.
"""

from collections.abc import Callable

import numpy as np

from planner.catalog.bands import bounds_of
from planner.catalog.model import Catalog, classes_of

PROFILED, CUT = "profiled", "cut from hardness"
Ranks = Callable[[str], np.ndarray]
"""strategy -> float64 [n] in [0, 1), one of each request."""


def origin_of(catalog: Catalog) -> dict[str, str]:
    """strategy -> where its classes come from: PROFILED or CUT."""
    predicted = catalog.measured.predicted if catalog.measured else {}
    return dict.fromkeys(catalog.class_cuts, CUT) | dict.fromkeys(predicted, PROFILED)


def sample_classes(catalog: Catalog, hardness: np.ndarray, ranks: Ranks) -> list[dict[str, str]]:
    """Return strategy -> class for each request; equal requests share one mapping, which must not be changed."""
    if catalog.measured is None:
        return classes_at(catalog, hardness)
    band_of = np.searchsorted(np.array(bounds_of(catalog)[1:-1]), hardness, side="right")
    predicted = {
        strategy: _sample(by_band, band_of, ranks(strategy)) for strategy, by_band in catalog.measured.predicted.items()
    }
    return with_labels(catalog, hardness, predicted)


def classes_at(catalog: Catalog, hardness: np.ndarray) -> list[dict[str, str]]:
    """strategy -> class of each request, cut from hardness, as `classes_of`."""
    return with_labels(catalog, hardness, {})


def with_labels(catalog: Catalog, hardness: np.ndarray, labels: dict[str, np.ndarray]) -> list[dict[str, str]]:
    """strategy -> class of each request: its label, str [n], of strategies that have some, and cut of the others."""
    bounds = sorted({cut.hardness for cuts in catalog.class_cuts.values() for cut in cuts} - {1.0})
    tables = [classes_of(catalog, low) for low in (0.0, *bounds)]
    places = np.searchsorted(bounds, hardness, side="right")
    for strategy, own in labels.items():
        names, place = np.unique(own, return_inverse=True)
        tables = [table | {strategy: name} for table in tables for name in names.tolist()]
        places = places * len(names) + place
    return [tables[place] for place in places.tolist()]


def _sample(by_band: tuple[dict[str, float], ...], band_of: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Str [n]: of each request the class at its rank among the shares of its band."""
    names = np.array(sorted({name for shares in by_band for name in shares}))
    shares = np.array([[own.get(name, 0.0) for name in names.tolist()] for own in by_band])
    above = ranks[:, None] >= np.cumsum(shares, axis=1)[band_of][:, :-1]
    return np.asarray(names[above.sum(axis=1)])
