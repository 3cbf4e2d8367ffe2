"""How much the bench measures, and the type of the function that shows its progress."""

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str, int], object]
"""Is called with what is being done, and how many parts of it are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The amount of measurements, and their seeds."""

    requests: int = 400  # of the stream
    images: int = 60  # of each side, where nothing repeats
    rows: int = 10_000  # that a lookup searches among
    lookups: int = 400
    busy: int | None = None  # processes that keep torch busy meanwhile; None: one for each other core
    seed: int = 2
    prompts: tuple[str, ...] = ()  # of the stream, in their order; none: drawn

    @property
    def parts(self) -> int:
        """An upper bound of the parts that a progress bar counts."""
        return 3 * self.requests + self.images + self.rows + 3 * self.lookups
