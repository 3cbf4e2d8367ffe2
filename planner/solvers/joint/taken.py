"""The levels that workers were taken from for load, to which none returns for a while.

A queue that a plan has left behind looks like demand to the next one (README, Taken for load).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation

RETURN_S: Final = 30  # for which no worker returns to a level that one was taken from
TAKEN: Final = "taken"  # in a plan's memory: level -> epoch s at which a plan took a worker from it for load


def barred_levels(memory: Mapping[str, Any], now_ms: int) -> frozenset[str]:
    """Return the levels that no worker may return to now; what lies in the future, after a clock was set back, is
    forgotten."""
    return frozenset(level for level, at_s in _read(memory).items() if 0 <= now_ms / 1000 - at_s < RETURN_S)


def returns_worker(plan: PlanProposal, seen: Observation, barred: Collection[str]) -> bool:
    """Whether a plan moves a worker of another level to one of `barred`; a worker that is new may come there."""
    there = (plan.allocation.get(worker.worker_id, worker.home) for worker in seen.workers if worker.home)
    homes = (worker.home for worker in seen.workers if worker.home)
    return any(name in barred and name != home for name, home in zip(there, homes, strict=True))


def memory_of(
    memory: Mapping[str, Any], plan: PlanProposal, seen: Observation, catalog: Catalog
) -> dict[str, Any]:  # fmt: skip
    """Return what is to be remembered, in JSON's values; the same as before where a plan takes no worker for load."""
    homes = Counter(worker.home for worker in seen.workers if worker.home)
    kept = Counter(plan.allocation.get(worker.worker_id, worker.home) for worker in seen.workers if worker.home)
    left, joined = sorted(homes - kept), kept - homes
    new = [name for name in left if any(cheaper.name in joined for cheaper in _cheaper(name, catalog))]
    taken = _read(memory) | dict.fromkeys(new, seen.now_ms // 1000)
    return {TAKEN: taken} if taken else {}


def _cheaper(level: str, catalog: Catalog) -> Sequence[Variant]:
    return catalog.cheaper_than(level) if level in catalog.variants else ()


def _read(memory: Mapping[str, Any]) -> dict[str, int]:
    known = memory.get(TAKEN)
    if not isinstance(known, dict):  # an earlier release has noted none
        return {}
    return {str(level): at_s for level, at_s in known.items() if isinstance(at_s, int)}
