"""Leaks: things in an image that its neighbour's prompt states and its own does not."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from agents.lab.profiling.reuse.floors import bounded
from agents.lab.world.reading import Reading
from agents.lab.world.scene import Scene
from agents.profiling.statistics.intervals import proportion
from planner.catalog.caching import Leak

ANY: Final = "any"
KINDS: Final = ("count", "colour", "shape", "background")
PLAIN: Final = "plain"  # the background of a prompt that states none


class Inherited(NamedTuple):
    """Facts that a neighbour's prompt states and the request's does not."""

    things: int | None  # their number; None: both state as many
    colours: frozenset[str]
    shapes: frozenset[str]
    background: str | None  # None: it states none, or the same

    def kinds(self) -> frozenset[str]:
        """The kinds in which there is anything to inherit."""
        stated = zip(KINDS, (self.things, self.colours, self.shapes, self.background), strict=True)
        return frozenset(kind for kind, value in stated if value)

    def leaked(self, reading: Reading) -> frozenset[str]:
        """The kinds in which an image shows it."""
        shown = {
            "count": len(reading.found) == self.things,
            "colour": any(thing.colour in self.colours for thing in reading.found),
            "shape": any(thing.shape in self.shapes for thing in reading.found),
            "background": reading.background == self.background,
        }
        return frozenset(kind for kind in self.kinds() if shown[kind])


def inherited(own: Scene, neighbour: Scene) -> Inherited:
    """Compare two scenes. A request that only rules a colour out asks for every other one: no colour can leak."""
    colours = {thing.colour for thing in neighbour.objects if not thing.is_unlike}
    background = neighbour.background if neighbour.background != (own.background or PLAIN) else None
    return Inherited(
        things=len(neighbour.objects) if len(neighbour.objects) != len(own.objects) else None,
        colours=frozenset()
        if any(thing.is_unlike for thing in own.objects)
        else frozenset(colours - {thing.colour for thing in own.objects}),
        shapes=frozenset({thing.shape for thing in neighbour.objects} - {thing.shape for thing in own.objects}),
        background=background,
    )


def leaks(begun: str, stated: Sequence[Inherited], readings: Mapping[float, Sequence[Reading]]) -> tuple[Leak, ...]:
    """Share of the images that show something inherited, by kind. `readings`: share of the steps -> image of each pair.

    At share 0 they are from noise: what is shown there is chance.
    """
    found: list[Leak] = []
    for share, seen in readings.items():
        shown = [each.leaked(reading) for each, reading in zip(stated, seen, strict=True)]
        for kind in (ANY, *KINDS):
            held = [
                bool(leaked) if kind == ANY else kind in leaked
                for each, leaked in zip(stated, shown, strict=True)
                if (each.kinds() if kind == ANY else kind in each.kinds())
            ]
            if held:
                found.append(Leak(begun, kind, share, len(held), bounded(proportion(np.array(held)))))
    return tuple(found)
