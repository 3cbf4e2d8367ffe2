"""The last events that matter to an operator, the newest first."""

import threading
from collections import deque
from typing import Final, NamedTuple

MAX_HAPPENINGS: Final = 200  # that stay in memory


class Happening(NamedTuple):
    """Something that happened."""

    at_ms: int
    kind: str  # plan | worker | ended | escalated | dead-letter | action
    text: str
    href: str = ""  # the page that says more; "": none
    is_bad: bool = False
    times: int = 1  # of the same kind, of which the newest is shown


class Happenings:
    """Remembers a number of them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: deque[Happening] = deque(maxlen=MAX_HAPPENINGS)

    def add(self, happening: Happening) -> None:
        """Take in one more."""
        with self._lock:
            self._all.append(happening)

    def newest(self, most: int) -> list[Happening]:
        """Return the last ones, the newest first; dead letters of one kind as one."""
        with self._lock:
            found = list(self._all)
        merged: dict[tuple[object, ...], Happening] = {}
        for number, each in enumerate(sorted(found, key=lambda each: -each.at_ms)):
            key = each[1:] if each.kind == "dead-letter" else (number,)
            merged[key] = merged[key]._replace(times=merged[key].times + 1) if key in merged else each
        return [*merged.values()][:most]
