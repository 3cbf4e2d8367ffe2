"""Workers as a test puts them: how long each variant's are busy, and which of several gets a job."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from planner.catalog.components import Selection
from planner.serving.dispatch.dispatch import ahead_ms, pick
from planner.serving.dispatch.free_times import SALT, FreeTimes
from planner.serving.dispatch.worker_loads import Load
from schemas.ids import draw


class FixedLoads(NamedTuple):
    """`planner.serving.routing.loads.Loads` of variants with these waits."""

    waits_ms: Mapping[str, float]
    workers: int = 2
    loads_ms: Mapping[str, float] = {}  # of a variant's missing components, on each of its workers
    slow: Mapping[str, float] = {}  # by variant, where its calls do not take as long as profiled
    by_variant: Mapping[str, int] = {}  # workers, where they are not one for each variant that is served

    def wait_ms(self, variant: str) -> float:
        return self.waits_ms[variant]

    def ready_ms(self, variant: str, selection: Selection) -> float:
        del selection
        return self.waits_ms[variant] + self.loads_ms.get(variant, 0.0)

    def slowness(self, variant: str) -> float:
        return self.slow.get(variant, 1.0)

    def serving_of(self, variant: str) -> int:
        return self.by_variant.get(variant, int(math.isfinite(self.waits_ms[variant])))

    def serving(self) -> int:
        return self.workers


def shortest_ms(loads: Iterable[Load]) -> float:
    """The wait until the least loaded worker is free; infinite where there is none."""
    return min((load.remaining_ms for load in loads), default=math.inf)


def plain_pick(
    kind: str, free_at_ms: Sequence[float], now_ms: float, request_id: str, sent_before: int, most_ahead_ms: float
) -> int | None:
    """`pick` by its definition: a look at every worker."""
    if not free_at_ms:
        return None
    if kind == "round-robin":
        return sent_before % len(free_at_ms)
    first_ms = max(now_ms, min(free_at_ms))
    places = [at for at, free_ms in enumerate(free_at_ms) if free_ms <= first_ms]
    if kind == "random":
        places = list(range(len(free_at_ms)))
    elif kind == "pull" and now_ms < first_ms and first_ms - now_ms >= most_ahead_ms:
        return None
    return places[int(draw(request_id, SALT) * len(places))]


def choose(
    kind: str, loads: Sequence[Load], request_id: str, sent_before: int, run_ms: float, batch: int = 1
) -> Load | None:
    """The worker that `pick` names, where an image takes `run_ms` and `batch` share a call."""
    remaining_ms = [load.remaining_ms for load in loads]
    place = pick(kind, FreeTimes(remaining_ms), 0.0, request_id, sent_before, ahead_ms(run_ms, batch))
    return None if place is None else loads[place]
