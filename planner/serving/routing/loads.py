"""The loads of workers as a sender sees them, and how long a request waits for its first step on a variant.

The router asks at admission (`routing.py`), and the discriminator before an escalation (`escalation.py`).
"""

import math
from typing import Protocol

from planner.catalog.components import Selection
from planner.catalog.entries import Variant


class Loads(Protocol):
    """The loads of the workers at one moment, as one sender sees them."""

    def wait_ms(self, variant: str) -> float:
        """Time until the least loaded worker of a variant is free; infinite if no worker serves it."""

    def ready_ms(self, variant: str, selection: Selection) -> float:
        """Time until a worker of a variant is free and has loaded what it lacks of a request's components.

        Of the worker where that is soonest; infinite if no worker serves the variant, which lists bases.
        """

    def slowness(self, variant: str) -> float:
        """Run time of a variant's calls as served, as a multiple of the profiled one; 1 if no worker serves it.

        Median over the last heartbeats of the workers that take its new jobs.
        """

    def serving_of(self, variant: str) -> int:
        """Number of workers that take new jobs of a variant."""

    def serving(self) -> int:
        """Number of workers that take new jobs, of all variants."""


def shared_wait_ms(wait_ms: float, serving: int, planned: int, load_ms: float) -> float:
    """Return `wait_ms` as it becomes where a plan gives a variant more workers than serve it: they share the work.

    In ms, as the two times are; `planned` > `serving`. The others come within `load_ms`; what waits for a variant that
    no worker serves yet is not known, and counts as nothing.
    """
    if not serving:
        return load_ms
    if wait_ms <= load_ms:
        return wait_ms
    return load_ms + (wait_ms - load_ms) * serving / planned


def begins_ms(variant: Variant, components: Selection, wait_ms: float, loads: Loads) -> float:
    """Time until a worker of a variant is free, after `wait_ms`, and holds the request's components, in ms.

    A variant whose workers all lack them is as late as the load. Source: MLoRA 7.2, whose router weighs queues against
    the locality of caches.
    """
    if not variant.bases or math.isinf(wait_ms):
        return wait_ms
    return loads.ready_ms(variant.name, components)
