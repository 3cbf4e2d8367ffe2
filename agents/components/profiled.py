"""Components of which there are only measured load times: moving one sleeps for as long. For load tests.

All are remote when a store opens, and no budget follows from what this machine has free: a gibibyte of each tier, where
the settings say nothing.
"""

import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Final

from agents.components.host import HostWeights
from agents.components.opening import OWN, Keeping
from agents.components.store import ComponentStore
from planner.catalog.entries import Variant
from planner.components.component import Component, Tier
from planner.components.from_catalog import of_variant
from planner.components.tiers import Budgets

BUDGET: Final = 1 << 30  # bytes of a tier


class _Moved:
    """Sleeps for moves, and remembers what was moved to one place."""

    def __init__(self, known: Mapping[str, Component], sleep: Callable[[float], None]) -> None:
        self._known, self._sleep = known, sleep
        self._there: set[str] = set()

    def wait(self, id_: str, source: Tier, target: Tier) -> None:
        """Sleep for as long as a component takes between two tiers."""
        component = self._known[id_]
        self._sleep(max(0.0, component.load_from(source) - component.load_from(target)) / 1000)


class ProfiledSource(_Moved):
    """A remote and a volume without bytes."""

    def on_volume(self) -> frozenset[str]:
        return frozenset(self._there)

    def fetch(self, id_: str) -> None:
        self.wait(id_, Tier.REMOTE, Tier.VOLUME)
        self._there.add(id_)

    def read(self, id_: str) -> HostWeights | None:
        self.wait(id_, Tier.VOLUME, Tier.HOST)
        return HostWeights(id_, pathlib.Path(), {}, has_all_files=False)

    def drop(self, id_: str) -> bool:
        self._there.discard(id_)
        return True


class ProfiledDevice(_Moved):
    """A device without bytes; nothing is fused there."""

    def resident_ids(self) -> frozenset[str]:
        return frozenset(self._there)

    def put(self, id_: str, host: HostWeights | None) -> None:
        del host
        self.wait(id_, Tier.HOST, Tier.DEVICE)
        self._there.add(id_)

    def drop(self, id_: str) -> None:
        self._there.discard(id_)


def open_profiled(
    variant: Variant, keeping: Keeping, sleep: Callable[[float], None] = time.sleep
) -> ComponentStore | None:
    """Open the store of a variant; None if it lists no components of a known size."""
    known = of_variant(variant)
    if not known:
        return None
    asked = keeping.settings
    volume, host, device = (
        BUDGET if size == OWN else size for size in (asked.volume_bytes, asked.host_bytes, asked.device_bytes)
    )
    return ComponentStore(
        known,
        Budgets(volume=volume, host=host, device=device),
        ProfiledSource(known, sleep),
        ProfiledDevice(known, sleep),
        before=keeping.before,
    )
