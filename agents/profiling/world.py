"""The port to a world: it draws prompts with known facts, and reads from an image which of these hold.

A distribution registers its world as the entry point `tiny` of the group `pochade.world`, and its study of approximate
caching as `reuse` of `pochade.profile`; `pochade-lab` does. Without one, `pochade profile` measures prompts of a file,
judged by a scorer.
"""

import importlib.metadata
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from planner.catalog.entries import Variant
from schemas.errors import PochadeError

if TYPE_CHECKING:
    import numpy as np

    from agents.profiling.seeded_prompts import SeededPrompts

LACKING = "install pochade-lab, which registers one (pip install pochade-lab)"


class Marks(NamedTuple):
    """The quality of n images."""

    quality: "np.ndarray"  # [n] in 0..1, or nan
    facts: "np.ndarray"  # [n] share of the stated facts that hold; nan where facts are not looked at
    missed: "np.ndarray"  # bool [n, World.kinds]; False where facts are not looked at


class World(Protocol):
    """Prompts whose facts can be read from images."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of facts."""

    def prompts(self, seed: int, count: int, stream: str) -> "SeededPrompts":
        """Draw prompts; the first are the same whatever the count."""

    def reads(self, variant: Variant) -> bool:
        """Whether facts can be read from images of this variant's size."""

    def marks(self, variant: Variant, captions: Sequence[str], images: "np.ndarray") -> Marks:
        """Judge uint8 images [n, h, w, 3]: quality is 1 if all facts that a caption states hold, and 0 else.

        nan for a caption that states none, and for images of a size that is not read.
        """

    def holds(self, prompt: str, image: "np.ndarray") -> bool | None:
        """Return whether all facts hold in the image, uint8 [h, w, 3], of the plain style; None if it states none."""


@cache
def installed() -> World | None:
    """Return the registered world, or None."""
    world: World | None = registered("pochade.world", "tiny")
    return world


def needed(what: str) -> World:
    """The registered world, for `what`, the start of the error's sentence. Raises PochadeError where there is none."""
    world = installed()
    if world is None:
        raise PochadeError(f"{what} a world whose facts can be read from images: {LACKING}")
    return world


def registered(group: str, name: str) -> Any:
    """Return what a distribution has registered under a name, or None."""
    return next((each.load() for each in importlib.metadata.entry_points(group=group, name=name)), None)
