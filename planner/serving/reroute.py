"""Jobs left on the topic of a variant that has lost its last worker: whose they are, and where they go instead."""

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from planner.catalog.model import Catalog
from planner.control.allocation import SERVING
from planner.observation.observation import WorkerView
from planner.serving.escalation import Keep
from planner.serving.placement import Place, TurnedAway, decide
from schemas.messages import GenerateJob, Plan

REMEMBERED_MS = 60_000  # of ends; every process knows those of the last minute, at any rate of requests
ANY_MS = sys.float_info.max  # of backlog, as the request was let in before; infinite where nobody serves a level


def stranded(variants: Iterable[str], plan: Plan, workers: Iterable[WorkerView]) -> list[str]:
    """The variants that no live worker serves or is on its way to, by name.

    `workers`: the live ones with what `plan`, the one in force, allocates to them. None is stranded while the plan
    counts on somebody who is gone, for the next one may give the variant another worker; nor while nobody serves
    anything, for there is nowhere to go.
    """
    live = list(workers)
    if plan.allocation.keys() - {worker.worker_id for worker in live}:
        return []
    if not any(worker.state in SERVING for worker in live):
        return []
    held = {worker.variant for worker in live} | {worker.home for worker in live}
    return sorted(set(variants) - held)


class Lying(NamedTuple):
    """A job as it lies on a topic."""

    offset: int
    written_ms: int
    has_result: bool  # of its request


class Unfinished(NamedTuple):
    """What a partition holds that is still to be done: all from `begin` on but `ended`."""

    begin: int
    ended: frozenset[int] = frozenset()
    was_looked_up: bool = True  # else all is young, and `begin` is the partition's first offset

    def is_over(self, offset: int) -> bool:
        """Whether nobody waits for the job at this offset any more."""
        return offset < self.begin or offset in self.ended


def is_forgotten(first: int, young: int, end: int) -> bool:
    """Whether a partition from which nothing is committed may hold jobs that ended long ago.

    Its group may never have been, or Kafka has dropped its offsets, as it does a week after the last member left.
    `first`: the offset of the oldest job; `young`: that of the first one written within REMEMBERED_MS; `end`: of none.
    """
    return first < min(young, end)


def unfinished(jobs: Iterable[Lying], end: int, now_ms: int, kept_ms: float) -> Unfinished:
    """What is open of a forgotten partition, told by the results, which outlive the jobs.

    `jobs`: by offset; one older than `kept_ms`, the topic's retention, waits only to be deleted: its result may have
    gone before it. A job that nobody ever took is open, however old it is within that.
    """
    begin, ended = end, list[int]()
    for job in jobs:
        if job.has_result or job.written_ms < now_ms - kept_ms:
            ended.append(job.offset)
        else:
            begin = min(begin, job.offset)
    return Unfinished(begin, frozenset(offset for offset in ended if offset > begin))


def rerouted(
    plan: Plan, job: GenerateJob, catalog: Catalog, wait_ms: Mapping[str, float], now_ms: int
) -> Place | TurnedAway | Keep | None:
    """What becomes of a job of a stranded variant; None: it waits where it is, for it names the model that it wants.

    One that was to replace a draft leaves it as the answer, as where the next level has no time. Any other is decided
    on anew by the plan in force, but is not shed and no backlog is too long, for it was let in before. `wait_ms` as in
    `planner.serving.placement.decide`. Source: design, section 7 ("what an ownerless variant still holds is
    re-routed").
    """
    if job.path:
        return Keep(None, f"nobody serves {job.variant} any more; the draft was kept")
    fate = decide(replace(plan, admission=None), job.classified, catalog, wait_ms, now_ms, ANY_MS)
    waits = isinstance(fate, Place) and math.isinf(wait_ms[fate.level])
    return None if waits else fate
