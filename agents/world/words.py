"""The words of the tiny world: shapes, colours, sizes, backgrounds, and the phrases around them. All typed by hand."""

from typing import Final, TypeAlias

Rgb: TypeAlias = tuple[int, int, int]

# Most common first: frequency falls with rank, so the last ones are the long tail where cheap models fail.
SHAPES: Final[dict[str, tuple[str, ...]]] = {
    "circle": ("circle", "disc", "ball"),
    "heart": ("heart",),
    "star": ("star",),
    "house": ("house", "cottage"),
    "tree": ("tree", "fir"),
    "cat": ("cat", "kitten"),
    "moon": ("moon", "crescent"),
    "fish": ("fish",),
    "flower": ("flower", "blossom"),
    "square": ("square", "box"),
    "boat": ("boat", "ship"),
    "mushroom": ("mushroom", "toadstool"),
    "ring": ("ring", "hoop"),
    "crown": ("crown", "diadem"),
    "drop": ("drop", "raindrop"),
    "cross": ("cross", "plus"),
    "arrow": ("arrow", "pointer"),
    "bolt": ("bolt", "lightning"),
    "key": ("key", "latchkey"),
    "hourglass": ("hourglass", "sandglass"),
}
COLOURS: Final[dict[str, tuple[str, ...]]] = {
    "red": ("red", "crimson"),
    "blue": ("blue", "azure"),
    "yellow": ("yellow", "golden"),
    "green": ("green", "emerald"),
    "orange": ("orange", "tangerine"),
    "purple": ("purple", "violet"),
    "pink": ("pink", "rose"),
    "black": ("black", "ebony"),
    "teal": ("teal", "turquoise"),
    "brown": ("brown", "chestnut"),
}
# "" is the usual size of a slot
SIZES: Final[dict[str, tuple[str, ...]]] = {"small": ("small", "tiny"), "huge": ("huge", "giant")}

# (top, bottom, ground band). Night is a bright dusk: dark backgrounds were the hardest to generate well.
BACKGROUND_RGB: Final[dict[str, tuple[Rgb, Rgb, Rgb]]] = {
    "plain": ((196, 194, 190), (196, 194, 190), (196, 194, 190)),
    "night": ((92, 98, 168), (120, 124, 188), (70, 76, 132)),
    "sky": ((150, 206, 246), (186, 226, 250), (236, 246, 252)),
    "sand": ((244, 226, 184), (236, 212, 160), (206, 172, 116)),
    "snow": ((226, 236, 246), (242, 246, 250), (252, 253, 255)),
    "grass": ((206, 232, 176), (186, 222, 152), (122, 182, 92)),
}
