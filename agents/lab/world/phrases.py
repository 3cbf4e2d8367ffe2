"""The words of the tiny world that only its captions, scenes and renderer need. All typed by hand."""

from typing import Final

from agents.world.words import Rgb

IRREGULAR_PLURALS: Final[dict[str, str]] = {
    "fish": "fish",
    "box": "boxes",
    "cross": "crosses",
    "plus": "pluses",
    "lightning": "lightnings",
    "hourglass": "hourglasses",
    "sandglass": "sandglasses",
}

COLOUR_RGB: Final[dict[str, Rgb]] = {
    "red": (216, 40, 48),
    "blue": (36, 92, 224),
    "yellow": (252, 212, 36),
    "green": (24, 136, 72),
    "orange": (248, 124, 20),
    "purple": (128, 44, 172),
    "pink": (248, 112, 176),
    "black": (28, 26, 34),
    "teal": (24, 190, 182),
    "brown": (118, 72, 40),
}

BACKGROUNDS: Final[dict[str, tuple[str, ...]]] = {
    "night": ("at night", "in the moonlight"),
    "sky": ("in the sky", "in the clouds"),
    "sand": ("on the sand", "on the beach"),
    "snow": ("in the snow", "in winter"),
    "grass": ("on the grass", "on a meadow"),
}
PREFIXES: Final[tuple[str, ...]] = (
    "a painting of",
    "a picture of",
    "a drawing of",
    "a sketch of",
    "an illustration of",
    "a photo of",
)
STYLES: Final[tuple[str, ...]] = (
    "highly detailed",
    "trending on artstation",
    "digital art",
    "concept art",
    "oil on canvas",
    "watercolor",
    "soft light",
    "masterpiece",
    "sharp focus",
    "by a famous painter",
    "cinematic",
    "minimal",
)
NUMBERS: Final[dict[int, str]] = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
