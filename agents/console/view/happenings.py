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
        """Return the last ones, the newest first."""
        with self._lock:
            found = list(self._all)
        return sorted(found, key=lambda each: -each.at_ms)[:most]
