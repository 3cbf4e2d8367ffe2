"""A worker's store for tests: a source and a device that note what they are asked, and fail when a test says so."""

import pathlib
from collections.abc import Callable

from agents.components.host import HostWeights
from agents.components.store import ComponentStore
from agents.components.weight_files import ComponentFailed
from planner.components.component import Component
from planner.components.tiers import Budgets
from tests.planner.components.build import some


class Shelf:
    """A source and its volume, without bytes."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.asked: list[str] = []  # "fetch base:a"
        self.live: list[str] = []  # components in host memory, the tier's and others'
        self.before: Callable[[str], None] = failing()  # a test's, of each

    def on_volume(self) -> frozenset[str]:
        return frozenset(self.there)

    def _note(self, what: str) -> None:
        self.asked.append(what)
        self.before(what)

    def fetch(self, id_: str) -> None:
        self._note(f"fetch {id_}")
        self.there.add(id_)

    def read(self, id_: str) -> HostWeights | None:
        self._note(f"read {id_}")
        self.live.append(id_)
        return HostWeights(id_, pathlib.Path(), {}, has_all_files=False, close=lambda: self.live.remove(id_))

    def drop(self, id_: str) -> bool:
        self._note(f"drop {id_}")
        self.there.discard(id_)
        return True


class Parts:
    """A device without bytes."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.before: Callable[[str], None] = failing()

    def resident_ids(self) -> frozenset[str]:
        return frozenset(self.there)

    def put(self, id_: str, host: HostWeights | None) -> None:
        del host
        self.before(id_)
        self.there.add(id_)

    def drop(self, id_: str) -> None:
        self.there.remove(id_)


class Shop:
    """A store of components of 10 bytes, with what is behind it."""

    def __init__(self, *ids: str, volume: int = 1000, host: int = 1000, device: int = 1000) -> None:
        self.shelf, self.parts, self.now_ms = Shelf(), Parts(), 0.0
        self.known: dict[str, Component] = some(*ids)
        budgets = Budgets(volume=volume, host=host, device=device)
        self.store = ComponentStore(self.known, budgets, self.shelf, self.parts, clock_ms=self._clock)

    def _clock(self) -> float:
        self.now_ms += 1
        return self.now_ms


def failing(*wanted: str) -> Callable[[str], None]:
    """Fail what is asked for by these names."""

    def before(asked: str) -> None:
        if asked in wanted:
            raise ComponentFailed(f"{asked}: the test lets it fail")

    return before
