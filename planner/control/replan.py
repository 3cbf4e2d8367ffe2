"""When the planner plans anew before its period is over."""

from collections.abc import Sequence
from typing import NamedTuple

from planner.observation.observation import WorkerView

GROWTH_MS = 1000.0  # by which a worker's backlog must have grown, beyond doubling
PAUSE_MS = 1000  # between plans that a backlog asks for; workers and pins are never made to wait


class Signals(NamedTuple):
    """What may call for a plan."""

    workers: tuple[str, ...]  # the live ones, by id
    pin: tuple[str, ...]  # what tells one operator's order from another; () none
    backlog_ms: float  # work waiting a live worker


def signals_of(workers: Sequence[WorkerView], pin: tuple[str, ...] = ()) -> Signals:
    """The signals of the live workers and an operator's order."""
    backlog_ms = sum(worker.remaining_ms for worker in workers) / len(workers) if workers else 0.0
    return Signals(tuple(worker.worker_id for worker in workers), pin, backlog_ms)


def why_now(before: Signals | None, now: Signals, since_ms: int, period_ms: int) -> str:
    """Why a plan is due, in words; "" if it is not.

    `before`: the signals when it was planned last, `since_ms` ago; None: never.
    """
    if before is None:
        return "the first plan"
    lost = [worker for worker in before.workers if worker not in now.workers]
    joined = [worker for worker in now.workers if worker not in before.workers]
    if lost or joined:
        return "; ".join([*(f"{worker} is lost" for worker in lost), *(f"{worker} joined" for worker in joined)])
    if now.pin != before.pin:
        return "an operator's order"
    if since_ms >= period_ms:
        return "the period is over"
    if now.backlog_ms > 2 * before.backlog_ms + GROWTH_MS and since_ms >= PAUSE_MS:
        return f"the backlog grew from {before.backlog_ms / 1000:.1f} to {now.backlog_ms / 1000:.1f} s a worker"
    return ""
