"""Images of a compiled variant beside those of the same variant without, in one process and in turns: `pochade bench
loader --compiles`.
"""

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from functools import partial

import numpy as np

from agents.components.opening import Keeping
from agents.engines import OpenedEngine, open_engine
from agents.profiling.generation.orders import generate_images
from agents.profiling.profiling import clock_of, in_turns, times_of, timing, usual_order
from planner.catalog.entries import Variant
from schemas.errors import PochadeError
from streams import catalogs

BUDGET_S = 60.0


def child(arguments: Sequence[str]) -> None:
    """Print times in ms of one call by batch size, their ratio, and how far the images differ, as JSON.

    `arguments`: catalog, variant, the home under which compiled code is kept, and batch sizes with commas. Raises
    PochadeError where the variant cannot be compiled.
    """
    catalog, name, home, batches = arguments
    plain = catalogs.load(catalog).level(name)
    plain = dataclasses.replace(plain, loading=dataclasses.replace(plain.loading, compile=False))
    asked = dataclasses.replace(plain, loading=dataclasses.replace(plain.loading, compile=True))
    eager = open_engine(plain.engine, plain, 1)
    compiled = open_engine(asked.engine, asked, 1, Keeping(home=pathlib.Path(home)))
    if not compiled.is_compiled:
        raise PochadeError(f"variant {name!r} cannot be compiled here: its log says why")
    found = {batch: _compared(plain, eager, compiled, int(batch)) for batch in batches.split(",")}
    print(json.dumps(found), flush=True)


def _compared(variant: Variant, eager: OpenedEngine, compiled: OpenedEngine, batch: int) -> dict[str, float]:
    order, clock = usual_order(variant, batch), clock_of(variant, 1)
    calls = {"eager": partial(generate_images, eager, order), "compiled": partial(generate_images, compiled, order)}
    turns = in_turns(calls, BUDGET_S, f"{variant.name}, {batch} at once")
    ms = {side: timing([sample for turn in taken for sample in turn], clock).ms for side, taken in turns.items()}
    apart = np.abs(np.stack(calls["eager"]()).astype(int) - np.stack(calls["compiled"]()).astype(int))
    return {
        "eager_ms": round(ms["eager"], 2),
        "compiled_ms": round(ms["compiled"], 2),
        "ratio": round(times_of(turns["compiled"], turns["eager"], clock), 3),
        "apart_most": int(apart.max()),  # of 255
        "apart_mean": round(float(apart.mean()), 4),
    }
