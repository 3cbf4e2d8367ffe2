"""The number of workers that a plan would need, for operators and autoscalers when no level is fast enough.

Source: ARGUS 5.3 and 6: all workers on the highest level of approximation "serves as a clear signal for horizontal
scaling". Ours: the number, from a proposal's own expectation, for every policy alike; also where the plan in force
stays, as one on its highest level does however much the demand grows.
"""

import math

from schemas.messages import Expected


def desired_workers(expected: Expected | None, workers: int) -> int:
    """Return the workers that would carry the demand planned for; above `workers`, those there are: saturated.

    The busiest variant's utilisation counts for all, so that it is never too few. Without a worker, or an expectation,
    one is taken for enough.
    """
    busiest = expected.utilization if expected else 0.0
    return max(1, math.ceil(busiest * max(1, workers) - 1e-9)) if math.isfinite(busiest) else max(1, workers)
