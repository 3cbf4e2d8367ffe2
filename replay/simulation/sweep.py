"""The smallest fleet that holds a service level: bisection over the number of workers."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from planner.control.format import counted
from replay.simulation.run import Ran
from replay.simulation.setup import Setup


class Tried(NamedTuple):
    """A fleet that was simulated; means over its runs."""

    workers: int
    in_time: float  # share of the requests
    cost_worker_s: float
    utilization: float


Run = Callable[[Setup], Sequence[Ran]]


def sweep(setup: Setup, span: tuple[int, int], hold: float, run: Run) -> tuple[int | None, list[Tried]]:
    """The fewest workers of `span`, both ends included, with a share of at least `hold` in time, and all tried by size.

    None where not even the most of them hold it. More workers are taken to serve no fewer in time: the fleet that is
    found holds it and the next smaller one was seen to fail, or is below the span.
    """
    tried: dict[int, Tried] = {}

    def holds(workers: int) -> bool:
        tried[workers] = tried_of(workers, run(dataclasses.replace(setup, workers=workers)))
        return tried[workers].in_time >= hold

    low, high = span
    found = None
    if holds(high):
        found = high
        while low < found:
            middle = (low + found) // 2
            if holds(middle):
                found = middle
            else:
                low = middle + 1
    return found, [tried[workers] for workers in sorted(tried)]


def tried_of(workers: int, runs: Sequence[Ran]) -> Tried:
    """Summarise the runs of a fleet, one per seed."""
    requests = sum(ran.tally.requests for ran in runs)
    up_ms = sum(ran.up_ms for ran in runs)
    return Tried(
        workers,
        1 - sum(ran.tally.violations for ran in runs) / max(1, requests),
        up_ms / 1000 / len(runs),
        sum(ran.busy_ms for ran in runs) / up_ms if up_ms else 0.0,
    )


def answer(policy: str, found: int | None, tried: Sequence[Tried], hold: float, slo_s: float) -> str:
    """The result in a sentence."""
    by_size = {each.workers: each for each in tried}
    if found is None:
        most = tried[-1]
        return (
            f"{policy}: not even {counted(most.workers, 'worker')} can answer {hold:.2%} within {slo_s:g} s "
            f"({most.in_time:.2%}): give a greater span, or another policy"
        )
    words = f"{policy}: {by_size[found].in_time:.2%} are in time within {slo_s:g} s on {counted(found, 'worker')}"
    less = by_size.get(found - 1)
    return f"{words}; {found - 1} only {less.in_time:.2%}" if less else f"{words}; fewer were not asked for"
