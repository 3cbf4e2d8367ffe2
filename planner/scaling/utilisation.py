"""The logical utilisation of a variant's workers, and how many workers it asks for.

Source: OctoAI, "Stable Diffusion at scale", automatic scaling.

The post scales by "the number of in-flight requests, the system's current capacity and a configurable load factor", not
by the utilisation of GPUs, which is nothing where no request waits; it gives no formula. Ours:

    u = in_flight / (workers x concurrency x load_factor),    wanted = the fewest workers with u <= 1

In flight is what was admitted and has not ended, waiting or running, as a mean over the window of measurement.
"""

import math
from typing import Final

LOAD_FACTOR: Final = 0.8  # share of the workers' places that in-flight requests may fill
_ROUNDING: Final = 1e-9  # 8 in flight at a factor of .8 want 10, whatever the floating point says


def utilisation(in_flight: float, workers: int, concurrency: float = 1.0, load_factor: float = LOAD_FACTOR) -> float:
    """Return u; infinite where requests are in flight and no worker is there. Raises ValueError."""
    _validate(in_flight, concurrency, load_factor)
    places = workers * concurrency * load_factor
    return in_flight / places if places > 0 else math.inf if in_flight > 0 else 0.0


def wanted_workers(in_flight: float, concurrency: float = 1.0, load_factor: float = LOAD_FACTOR) -> int:
    """Return the fewest workers whose u is at most 1; `concurrency`: requests that one runs at once.

    Raises:
        ValueError: `in_flight` is negative or not finite, `concurrency` not positive, `load_factor` not in (0, 1].
    """
    _validate(in_flight, concurrency, load_factor)
    return math.ceil(in_flight / (concurrency * load_factor) - _ROUNDING)


def _validate(in_flight: float, concurrency: float, load_factor: float) -> None:
    if not (math.isfinite(in_flight) and in_flight >= 0):
        raise ValueError(f"in_flight must be at least 0 and finite: got {in_flight}")
    if not concurrency > 0:
        raise ValueError(f"concurrency must be above 0: got {concurrency}")
    if not 0 < load_factor <= 1:
        raise ValueError(f"load_factor must be in (0, 1]: got {load_factor}")
