"""Jobs left on the topic of a variant that has lost its last worker: whose they are, and where they go instead."""

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from planner.catalog.parse import Catalog
from planner.control.allocation import SERVING
from planner.observation.observation import WorkerView
from planner.serving.escalation import Keep
from planner.serving.placement import Place, TurnedAway, decide
from schemas.messages import GenerateJob, Plan

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
