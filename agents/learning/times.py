"""Whether images took about as long as the catalog says: plans are made by its times, which may be of other steps."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from agents.profiling.generation.orders import GeneratedImages, batch_of
from agents.profiling.profiling import clock_of
from planner.catalog.entries import Variant, run_ms

APART: Final = 2.0  # factor between both times; less is a busy machine


def stale_times(levels: Mapping[str, Variant], generated: Mapping[str, GeneratedImages]) -> Iterator[str]:
    """Yield a sentence for each level whose images took less than half or more than twice its time in the catalog.

    The median counts. An image whose time is not known, as a part of an older release has none, says nothing.
    """
    for name, images in generated.items():
        variant, batch = levels[name], batch_of(levels[name])
        taken = images.taken_ms[:, 0 if clock_of(variant, 1) == "cpu" else 1]
        taken_ms, given_ms = float(np.median(taken)), run_ms(variant, batch) / batch
        if taken_ms > APART * given_ms or taken_ms < given_ms / APART:
            took = f"{name}: an image in calls of {batch} took {_in_words(taken_ms)}"
            yield f"{took}, and by the catalog's latency_ms it takes {_in_words(given_ms)}"


def _in_words(ms: float) -> str:
    return f"{ms:.0f} ms" if ms >= 100 else f"{ms:.3g} ms"
