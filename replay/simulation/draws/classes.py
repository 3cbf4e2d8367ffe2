"""The classes of many requests at once: between two cuts they are the same."""

import numpy as np

from planner.catalog.parse import Catalog, classes_of


def classes_at(catalog: Catalog, hardness: np.ndarray) -> list[dict[str, str]]:
    """strategy -> class of each request, as `classes_of`; requests alike share one mapping, which nobody changes."""
    bounds = sorted({cut.hardness for cuts in catalog.class_cuts.values() for cut in cuts} - {1.0})
    between = [classes_of(catalog, low) for low in (0.0, *bounds)]
    return [between[place] for place in np.searchsorted(bounds, hardness, side="right").tolist()]
