"""Workers as a test puts them: how long each variant's are busy, and which of several gets a job."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from planner.serving.dispatch.dispatch import ahead_ms, pick
from planner.serving.dispatch.worker_loads import Load


class FixedLoads(NamedTuple):
    """`planner.serving.routing.routing.Loads` of variants with these waits."""

    waits_ms: Mapping[str, float]
    workers: int = 2

    def wait_ms(self, variant: str) -> float:
        return self.waits_ms[variant]

    def serving(self) -> int:
        return self.workers


def choose(
    kind: str, loads: Sequence[Load], request_id: str, sent_before: int, run_ms: float, batch: int = 1
) -> Load | None:
    """The worker that `pick` names, where an image takes `run_ms` and `batch` share a call."""
    remaining_ms = [load.remaining_ms for load in loads]
    place = pick(kind, remaining_ms, 0.0, request_id, sent_before, ahead_ms(run_ms, batch))
    return None if place is None else loads[place]
