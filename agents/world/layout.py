"""The places of things: slots on a 48 x 48 image.

One thing          Two, three, four       Five, six
                   TL    T    TR          T1   T2   T3      upper row of three
      C            L          R             t1    t2        upper row of two
                   BL    B    BR          B1   B2   B3      lower row of three; b1, b2 as above

A row of "three and four" is two wide; rows leave 2 px between them even at the largest jitter.
"""

from typing import Final

SIZE: Final = 48  # px, image height and width

_UPPER, _MIDDLE, _LOWER = 12, 23, 35  # px, centres of the rows
_PAIR, _TRIPLE, _INNER = (12, 36), (8, 24, 40), (16, 32)  # px, centres of the columns

# slot -> (y, x) of its centre in px, before jitter
CENTRES: Final[dict[str, tuple[int, int]]] = {
    "C": (_MIDDLE, 24),
    "T": (_UPPER, 24),
    "B": (_LOWER, 24),
    "L": (_MIDDLE, _PAIR[0]),
    "R": (_MIDDLE, _PAIR[1]),
    "TL": (_UPPER, _PAIR[0]),
    "TR": (_UPPER, _PAIR[1]),
    "BL": (_LOWER, _PAIR[0]),
    "BR": (_LOWER, _PAIR[1]),
    **{f"T{n}": (_UPPER, x) for n, x in enumerate(_TRIPLE, 1)},
    **{f"B{n}": (_LOWER, x) for n, x in enumerate(_TRIPLE, 1)},
    **{f"t{n}": (_UPPER, x) for n, x in enumerate(_INNER, 1)},
    **{f"b{n}": (_LOWER, x) for n, x in enumerate(_INNER, 1)},
}
SLOTS: Final = tuple(CENTRES)
