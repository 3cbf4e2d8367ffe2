"""Where things stand: nine slots on a 32 x 32 picture, and the sentence patterns that name them.

big   one object, 24 x 24            TL    TR       corners, 12 x 12
----------------------------            TC          middle of the upper row
The rows leave 2 px between them    LM      RM      side by side
even at the largest jitter.             BC          middle of the lower row
                                     BL    BR
"""

from itertools import permutations
from typing import Final

SIZE: Final = 32  # px, picture height and width
BAND: Final = 4  # px, ground at the bottom of every named background
JITTER: Final = 1  # px, in x and y
SMALL: Final = 12  # px
LARGE: Final = 24  # px

# slot -> (top, left, size), in px, before jitter
SLOTS: Final[dict[str, tuple[int, int, int]]] = {
    "big": (3, 4, LARGE),
    "TL": (1, 2, SMALL),
    "TR": (1, 18, SMALL),
    "BL": (17, 2, SMALL),
    "BR": (17, 18, SMALL),
    "TC": (1, 10, SMALL),
    "BC": (17, 10, SMALL),
    "LM": (10, 2, SMALL),
    "RM": (10, 18, SMALL),
}

# Every set of slots a picture can show; the reader of pictures tries each.
LAYOUTS: Final[tuple[tuple[str, ...], ...]] = (
    ("big",),
    *((slot,) for slot in SLOTS if slot != "big"),
    ("LM", "RM"),
    ("TC", "BC"),
    ("TL", "TR", "BC"),
    ("TC", "BL", "BR"),
    ("TL", "TR", "BL", "BR"),
)

CORNERS: Final[dict[str, str]] = {
    "TL": "top left",
    "TR": "top right",
    "BL": "bottom left",
    "BR": "bottom right",
}


def _corner_lists() -> dict[str, tuple[str, ...]]:
    return {
        ", ".join(f"1 {CORNERS[slot]}" for slot in order): order
        for order in permutations(CORNERS)  # all 24: order carries no meaning
    }


# Sentence pattern -> slots in the order its objects are named. A digit is a noun phrase of that many equal objects.
PATTERNS: Final[dict[int, dict[str, tuple[str, ...]]]] = {
    1: {
        "1": ("big",),
        "1 at the top": ("TC",),
        "1 at the bottom": ("BC",),
        "1 on the left": ("LM",),
        "1 on the right": ("RM",),
        **{f"1 in the {name} corner": (slot,) for slot, name in CORNERS.items()},
    },
    2: {
        "1 and 1": ("LM", "RM"),
        "2": ("LM", "RM"),
        "1 left of 1": ("LM", "RM"),
        "1 right of 1": ("RM", "LM"),
        "1 above 1": ("TC", "BC"),
        "1 below 1": ("BC", "TC"),
        "1 over 1": ("TC", "BC"),
        "1 under 1": ("BC", "TC"),
    },
    3: {
        "3": ("TL", "TR", "BC"),
        "1, 1 and 1": ("TL", "TR", "BC"),
        "1 and 1 above 1": ("TL", "TR", "BC"),
        "2 above 1": ("TL", "TR", "BC"),
        "1 above 1 and 1": ("TC", "BL", "BR"),
        "1 above 2": ("TC", "BL", "BR"),
        "1 and 1 below 1": ("BL", "BR", "TC"),
        "1 below 1 and 1": ("BC", "TL", "TR"),
        "2 below 1": ("BL", "BR", "TC"),
    },
    4: {
        "4": ("TL", "TR", "BL", "BR"),
        "1, 1, 1 and 1": ("TL", "TR", "BL", "BR"),
        "2 above 2": ("TL", "TR", "BL", "BR"),
        "2 below 2": ("BL", "BR", "TL", "TR"),
        "1 and 1 above 1 and 1": ("TL", "TR", "BL", "BR"),
        "2 above 1 and 1": ("TL", "TR", "BL", "BR"),
        "1 and 1 above 2": ("TL", "TR", "BL", "BR"),
        **_corner_lists(),
    },
}
# How often a pattern is used against its neighbours (default 1): plain forms are common, the 24 corner lists share 2.
PATTERN_WEIGHTS: Final[dict[str, float]] = {
    "1": 8.0,
    "1 and 1": 2.0,
    "1, 1 and 1": 2.0,
    "1, 1, 1 and 1": 2.0,
    **dict.fromkeys(_corner_lists(), 2 / 24),
}
