"""How much the bench measures, and whom it tells of its progress."""

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str, int], object]
"""Told what is being done, and how many parts of it are done by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured, and on which draws."""

    requests: int = 400  # of the stream
    images: int = 60  # of each side, where nothing repeats
    rows: int = 10_000  # that a lookup searches among
    lookups: int = 400
    busy: int | None = None  # processes that keep torch busy meanwhile; None: one for each other core
    seed: int = 2
    prompts: tuple[str, ...] = ()  # of the stream, in their order; none: drawn

    @property
    def parts(self) -> int:
        """An upper bound of what is told to a progress bar."""
        return 3 * self.requests + self.images + self.rows + 3 * self.lookups
