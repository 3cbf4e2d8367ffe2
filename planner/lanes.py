"""When a batch request may pass: only while the workers have nothing waiting."""

from collections.abc import Sequence
from typing import NamedTuple


class Occupation(NamedTuple):
    """What one worker has before it."""

    remaining_ms: float  # running and waiting work
    run_ms: float  # one job of its variant


def batch_may_pass(workers: Sequence[Occupation], in_flight: int) -> bool:
    """Whether one more batch request may go on its way.

    Nobody has more than the job in hand, somebody is idle, and no more batch requests are on their way than there are
    workers: loads are known only as of the last heartbeat, and requests that passed may not be in them yet.
    """
    nothing_waits = all(worker.remaining_ms <= worker.run_ms for worker in workers)
    return nothing_waits and any(worker.remaining_ms <= 0 for worker in workers) and in_flight < len(workers)
