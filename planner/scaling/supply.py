"""The workers that a supervisor starts and ends to reach a plan's scale.

Run by `pochade scale` on its processes and by the simulator on its own. A worker is ended only where the plan gives it
no variant and it serves none: it has drained before, so that nothing waits for it.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from planner.observation.workers import WorkerView
from schemas.messages import Plan

FIRST_BACKOFF_MS: Final = 500.0  # before a dead worker is started again; doubled by each death in a row
MAX_BACKOFF_MS: Final = 60_000.0
CALM_MS: Final = 120_000.0  # that a worker has lived for its deaths before to count no more


class Orders(NamedTuple):
    """The decision of a moment."""

    start: int = 0  # workers
    end: tuple[str, ...] = ()  # worker ids


def wanted_workers_of(plan: Plan | None) -> int | None:
    """Return the number of workers that a plan asks for, with the pool; None if the plan does not scale."""
    if plan is None or plan.scale is None:
        return None
    return sum(plan.scale.targets.values()) + plan.scale.warm


def orders(plan: Plan | None, own: Collection[str], live: Mapping[str, WorkerView]) -> Orders:
    """Return whom to start and end. `own`: the supervisor's workers, those that are starting and due again among them.

    `live`: by id, the workers with heartbeats, somebody else's too: the plan counts all of them. Of those that may be
    ended the ones that have sent no heartbeat yet go first, then by id, the last one first.
    """
    wanted = wanted_workers_of(plan)
    if plan is None or wanted is None:
        return Orders()
    there = len(set(own) | live.keys())
    if there <= wanted:
        return Orders(start=wanted - there)
    idle = [name for name in own if name not in plan.allocation and not (name in live and live[name].variant)]
    ranked = sorted(sorted(idle, reverse=True), key=lambda name: name in live)
    return Orders(end=tuple(ranked[: there - wanted]))


def backoff_ms(deaths: int) -> float:
    """Return the time to wait before a worker that died `deaths` times in a row, one or more, is started again."""
    return min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2.0 ** min(deaths - 1, 30))


def next_ids(count: int, taken: Collection[str], prefix: str) -> list[str]:
    """Return the ids of new workers: PREFIX-N with the smallest numbers from 1 that are not taken."""
    found: list[str] = []
    number = 1
    while len(found) < count:
        if (name := f"{prefix}-{number}") not in taken:
            found.append(name)
        number += 1
    return found
