"""Times that are coarser than a trace's rate needs, as those of access logs: whole seconds that several requests share.

Left as they are, all requests of a second would come at its begin: bursts that never were, which end late.
"""

import dataclasses
from typing import Final

import numpy as np

from replay.simulation.draws.chance import uniform
from replay.traces.trace import Trace

TICKS_MS: Final = {"day": 86_400_000.0, "hour": 3_600_000.0, "minute": 60_000.0, "second": 1000.0}  # the coarsest first
FEWEST: Final = 3  # distinct times: two may be whole by chance


def tick_of(arrival_ms: np.ndarray) -> str:
    """Return the coarsest unit in whole numbers of which arrivals follow each other, if several share a time; "" else.

    Times count from the first one: those of access logs begin anywhere.
    """
    gaps = np.diff(arrival_ms)
    steps = gaps[gaps > 0]
    if len(steps) == len(gaps) or len(steps) < FEWEST - 1:
        return ""
    return next((unit for unit, ms in TICKS_MS.items() if not (steps % ms).any()), "")


def spread(trace: Trace, seed: int) -> Trace:
    """Return the trace with arrivals at times drawn evenly within their tick, in the order that they have.

    As it is, if its times are fine enough for its rate.
    """
    unit = tick_of(trace.arrival_ms)
    if not unit:
        return trace
    drawn = trace.arrival_ms + TICKS_MS[unit] * uniform(seed, "ticks", 0, len(trace))
    return dataclasses.replace(trace, arrival_ms=np.sort(drawn), spread_within=unit)


def describe_spread(unit: str) -> str:
    """Say what was done to the times of a trace. `unit`: `Trace.spread_within`, not ""."""
    times = f"the trace states times in whole {unit}s, and several requests share one"
    return f"{times}: each request arrives at a moment drawn evenly within its {unit}"
