"""Decides when a batch request may pass on to the workers: only while they have no jobs waiting.

The first batch request in the queue is asked about every `POLL_MS` until it may pass. `BatchGate` remembers those that
passed until they end.
"""

from collections.abc import Container, Hashable, Sequence
from typing import NamedTuple

POLL_MS = 50.0  # between two questions whether the first request in the queue may pass
UNREPORTED_MS = 150  # from the gate to a worker, 50 between two of its heartbeats, and from them to the gate


class Occupation(NamedTuple):
    """The jobs and work before one worker."""

    remaining_ms: float  # running and waiting work
    run_ms: float  # one job of its variant


class BatchGate:
    """Lets batch requests pass one by one. Not thread-safe; the times are of one clock."""

    def __init__(self) -> None:
        self._in_flight: dict[Hashable, float] = {}  # request -> when it passed, ms

    def may_pass(self, workers: Sequence[Occupation], now_ms: float) -> bool:
        """Whether one more batch request may go on its way, while the live workers are occupied so."""
        return batch_may_pass(workers, [now_ms - at_ms for at_ms in self._in_flight.values()])

    def on_passed(self, request: Hashable, now_ms: float) -> None:
        """The request is on its way to a worker."""
        self._in_flight[request] = now_ms

    def on_end(self, request: Hashable) -> None:
        """The request has a result, or was never sent; one that did not pass changes nothing."""
        self._in_flight.pop(request, None)

    def remove_ended(self, ended: Container[Hashable]) -> None:
        """Do as `on_end` does, for all requests that passed and are in `ended`."""
        for request in [request for request in self._in_flight if request in ended]:
            del self._in_flight[request]


def batch_may_pass(workers: Sequence[Occupation], passed_ms: Sequence[float]) -> bool:
    """Whether one more batch request may pass.

    `passed_ms`: time since each open batch request passed. It may if no worker has more than the job in progress, there
    is an idle worker for it and for each request that heartbeats cannot show yet (else two would go to one worker, and
    the next request wait for both), and fewer batch requests are open than there are workers.
    """
    nothing_waits = all(worker.remaining_ms <= worker.run_ms for worker in workers)
    idle = sum(worker.remaining_ms <= 0 for worker in workers)
    unreported = sum(ms < UNREPORTED_MS for ms in passed_ms)
    return nothing_waits and unreported < idle and len(passed_ms) < len(workers)
