"""What a caption of the tiny world states, as values. `captions.parse` reads them; the lab samples and draws them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneObject:
    """One thing in the image."""

    shape: str  # a key of words.SHAPES
    colour: str  # a key of words.COLOURS
    slot: str  # one of layout.SLOTS
    size: str = ""  # a key of words.SIZES; "": the usual size of its slot
    is_unlike: bool = False  # any colour but `colour`


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The facts that a caption states."""

    objects: tuple[SceneObject, ...]  # in the order the caption names them
    background: str | None  # a key of words.BACKGROUNDS; None: not stated, a plain one
    caption: str
    absent: str | None = None  # a shape that must not be seen

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(thing.slot for thing in self.objects)
