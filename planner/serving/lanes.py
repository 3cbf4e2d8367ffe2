"""When a batch request may pass: only while the workers have nothing waiting."""

from collections.abc import Sequence
from typing import NamedTuple

UNHEARD_MS = 150  # from the lane to a worker, 50 between two of its heartbeats, and from them to the lane


class Occupation(NamedTuple):
    """What one worker has before it."""

    remaining_ms: float  # running and waiting work
    run_ms: float  # one job of its variant


def batch_may_pass(workers: Sequence[Occupation], passed_ms: Sequence[float]) -> bool:
    """Whether one more batch request may go on its way.

    `passed_ms`: how long ago each batch request passed that has not ended. Nobody has more than the job in hand, and
    somebody is idle for each request that no worker can have told of and for this one: else two go to one worker, and
    whoever comes next waits for both. Nor are more on their way than workers.
    """
    nothing_waits = all(worker.remaining_ms <= worker.run_ms for worker in workers)
    idle = sum(worker.remaining_ms <= 0 for worker in workers)
    unheard = sum(ms < UNHEARD_MS for ms in passed_ms)
    return nothing_waits and unheard < idle and len(passed_ms) < len(workers)
