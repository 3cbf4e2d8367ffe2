"""The sentence patterns that name the slots of an image, the sets of slots that images show, and sizes there."""

from itertools import permutations, product
from typing import Final

BAND: Final = 6  # px, ground at the bottom of every named background
JITTER: Final = 1  # px, in x and y


def sides(slot: str) -> dict[str, int]:
    """Size word -> px of a thing in this slot; "" is its usual size."""
    if slot == "C":
        return {"": 24, "small": 12, "huge": 36}
    return {"": 12} if slot[-1].isdigit() else {"": 18, "small": 12}


# Every set of slots an image can show; the reader of images tries each.
LAYOUTS: Final[tuple[tuple[str, ...], ...]] = (
    *((slot,) for slot in ("C", "T", "B", "L", "R", "TL", "TR", "BL", "BR")),
    ("L", "R"),
    ("T", "B"),
    ("TL", "TR", "B"),
    ("T", "BL", "BR"),
    ("TL", "TR", "BL", "BR"),
    ("T1", "T2", "T3", "b1", "b2"),
    ("t1", "t2", "B1", "B2", "B3"),
    ("T1", "T2", "T3", "B1", "B2", "B3"),
)
CORNERS: Final[dict[str, str]] = {
    "TL": "top left",
    "TR": "top right",
    "BL": "bottom left",
    "BR": "bottom right",
}
# Number of things in a row -> ways to name the row. A digit is a noun phrase of that many equal things.
_ROWS: Final[dict[int, tuple[str, ...]]] = {
    1: ("1",),
    2: ("1 and 1", "2"),
    3: ("1, 1 and 1", "3", "2 and 1", "1 and 2"),
}


def _rows(upper: tuple[str, ...], lower: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """'A above B' and 'B below A' in every way to name the two rows."""
    out = {}
    for above, below in product(_ROWS[len(upper)], _ROWS[len(lower)]):
        out[f"{above} above {below}"] = (*upper, *lower)
        out[f"{below} below {above}"] = (*lower, *upper)
    return out


_CORNER_LISTS: Final = {
    ", ".join(f"1 {CORNERS[slot]}" for slot in order): order
    for order in permutations(CORNERS)  # all 24: order carries no meaning
}

# Sentence pattern -> slots in the order its things are named.
PATTERNS: Final[dict[int, dict[str, tuple[str, ...]]]] = {
    1: {
        "1": ("C",),
        "1 at the top": ("T",),
        "1 at the bottom": ("B",),
        "1 on the left": ("L",),
        "1 on the right": ("R",),
        **{f"1 in the {name} corner": (slot,) for slot, name in CORNERS.items()},
    },
    2: {
        "1 and 1": ("L", "R"),
        "2": ("L", "R"),
        "1 left of 1": ("L", "R"),
        "1 right of 1": ("R", "L"),
        **_rows(("T",), ("B",)),
        "1 over 1": ("T", "B"),
        "1 under 1": ("B", "T"),
    },
    3: {
        "3": ("TL", "TR", "B"),
        "1, 1 and 1": ("TL", "TR", "B"),
        **_rows(("TL", "TR"), ("B",)),
        **_rows(("T",), ("BL", "BR")),
    },
    4: {
        "4": ("TL", "TR", "BL", "BR"),
        "1, 1, 1 and 1": ("TL", "TR", "BL", "BR"),
        **_rows(("TL", "TR"), ("BL", "BR")),
        **_CORNER_LISTS,
    },
    5: {
        "5": ("T1", "T2", "T3", "b1", "b2"),
        **_rows(("T1", "T2", "T3"), ("b1", "b2")),
        **_rows(("t1", "t2"), ("B1", "B2", "B3")),
    },
    6: {
        "6": ("T1", "T2", "T3", "B1", "B2", "B3"),
        **_rows(("T1", "T2", "T3"), ("B1", "B2", "B3")),
    },
}
# How often a pattern is used against its neighbours (default 1): plain forms are common, the 24 corner lists share 3.
PATTERN_WEIGHTS: Final[dict[str, float]] = {
    "1": 8.0,
    "1 and 1": 2.0,
    "1, 1 and 1": 2.0,
    "1, 1, 1 and 1": 2.0,
    **dict.fromkeys(_CORNER_LISTS, 3 / 24),
}
MAX_OBJECTS: Final = max(PATTERNS)
