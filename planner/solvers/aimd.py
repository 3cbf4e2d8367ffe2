"""Batch sizes by additive increase and multiplicative decrease, kept in a policy's memory. Not a policy by itself."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from planner.catalog.model import Catalog
from planner.observation.observation import Observation

MEMORY = "batch"  # the key in a policy's memory


def tuned(
    levels: Iterable[str], catalog: Catalog, seen: Observation, memory: Mapping[str, Any],
    is_late: Callable[[str, int], bool], left: float,
) -> dict[str, int]:  # fmt: skip
    """Return level -> next batch size: `left` of it, [0, 1), if it is late, else one more, up to the largest measured.

    The first is 1. A window in which no request ended changes nothing, as no batch was measured.
    Source: Clipper (NSDI 2017), dynamic batch size: one more until a batch takes over the objective, then a back-off.
    """
    before = memory.get(MEMORY, {})
    sizes = {name: int(before.get(name, 1)) for name in levels}
    if seen.served.in_time is None:
        return sizes
    return {
        name: max(1, int(left * size)) if is_late(name, size) else min(size + 1, max(catalog.level(name).latency_ms))
        for name, size in sizes.items()
    }
