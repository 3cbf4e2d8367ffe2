"""Times engines that allow several calls at once: how long an image takes while so many are in flight.

As many calls are open all the time, so that none waits for the slowest of a group; n in flight for t give n / t.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from planner.catalog.entries import Variant

NEAR: Final = 0.97  # of the best throughput, with which fewer calls suffice


def sizes_of(most: int) -> tuple[int, ...]:
    """Return the numbers of calls to measure: 1, 2, 4 and so on, and `most`."""
    return tuple(sorted({most, *(1 << power for power in range(most.bit_length()))}))


@contextlib.contextmanager
def in_flight(call: Callable[[], object], calls: int) -> Iterator[Callable[[], None]]:
    """Keep `calls` open in threads; give a function that waits until as many have ended, and raises what one raised."""
    ended, stopping = queue.SimpleQueue[BaseException | None](), threading.Event()

    def run() -> None:
        while not stopping.is_set():
            error: BaseException | None = None
            try:
                call()
            except BaseException as raised:  # the waiting thread's to know
                error = raised
            ended.put(error)

    def wait() -> None:
        for _ in range(calls):
            if (error := ended.get()) is not None:
                raise error

    threads = [threading.Thread(target=run, daemon=True) for _ in range(calls)]
    for thread in threads:
        thread.start()
    try:
        yield wait
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def enough(latency_ms: Mapping[int, float]) -> int:
    """Return the fewest calls in flight whose throughput is near the best. `latency_ms`: of an image, by calls."""
    best = max(calls / ms for calls, ms in latency_ms.items())
    return min(calls for calls, ms in latency_ms.items() if calls / ms >= NEAR * best)


def advice(variants: Mapping[str, Variant], latency_ms: Mapping[str, Mapping[int, float]]) -> list[str]:
    """Return a line for each variant with a server: what to state as its `in_flight`, and why."""
    lines = []
    for name, server in ((name, variants[name].server) for name in latency_ms):
        if server is not None:
            fewest, measured = enough(latency_ms[name]), sorted(latency_ms[name].items())
            rates = ", ".join(f"{calls}: {1000 * calls / ms:.3g}" for calls, ms in measured)
            more = "; more may be faster: raise it and measure again" if fewest == server.in_flight else ""
            lines.append(f"# {name}: in_flight = {fewest} (images a second by requests in flight: {rates}){more}")
    return lines
