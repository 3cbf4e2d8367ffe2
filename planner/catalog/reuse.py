"""Measurements of beginning from stored latents: similarity of neighbours, and the steps that it lets skip.

    neighbours   .99 of them equal    .97 half differ in colour    ...        how prompts repeat
    floors       from .9 on .25 of the steps, from .95 on .5                  what similarity allows
    guard        equal .5, style .25, differs in colour 0                     what the facts allow

`pochade profile --reuse` measures it (`caching.py`); a catalog of published figures may state it. Without one
nothing is reused.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from planner.catalog.validate import is_amount, is_share, require
from planner.reuse.terms import Difference
from schemas.errors import Unknown
from schemas.messages import ReuseFloor, ReuseGuard

SAME_FACTS: Final = ("equal", "style")  # verdicts of the guard under which facts agree
UNSURE: Final = "unsure"
VERDICTS: Final = (*SAME_FACTS, UNSURE, *(each.value for each in Difference))
ADVICE: Final = "correct it, or measure again with `pochade profile --reuse`"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The requests whose nearest stored neighbour is at least this similar, and less than the next row says."""

    similarity: float  # cosine, [-1, 1]
    share: float  # of all requests, [0, 1]
    verdicts: dict[str, float] = field(default_factory=dict)  # how facts compare -> share of these; {}: all equal


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseProfile:
    """Measured hits, allowed shares of steps, and times of lookups."""

    floors: tuple[ReuseFloor, ...] = ()  # rising; with a quality whose lower bound is good enough
    guard: ReuseGuard | None = None  # the largest shares that lose no facts; None: not measured
    neighbours: tuple[Neighbours, ...] = ()  # rising, by the similarity of both prompts
    image_neighbours: tuple[Neighbours, ...] = ()  # by that of the prompt with the stored image, as MoDM looks up
    image_floors: tuple[ReuseFloor, ...] = ()  # of that similarity, by MoDM's rule on the profile's own encoder
    key: str = ""  # encoder of prompts that the similarities are of; "": the default one
    hits: dict[str, float] = field(default_factory=dict)  # level -> share of hits, where `neighbours` are not known
    losses: dict[str, float] = field(default_factory=dict)  # level -> quality that a hit within floors and guard loses
    # verdict on the neighbour -> share of the steps skipped -> change of quality against the same prompt from noise
    changes: dict[str, dict[float, float]] = field(default_factory=dict)
    retrieval_ms: float = 0.0  # median of search and fetch together
    retrieval_p95_ms: float = 0.0

    def change(self, verdict: str, share: float) -> float | None:
        """Return the change of mean quality by a start after a share of the steps; None if it was not measured.

        Between two measured shares it is interpolated linearly; nothing skipped changes nothing.
        """
        import numpy as np  # what serves reads catalogs without it

        known = self.changes.get(verdict)
        if not known:
            return None
        shares = sorted({0.0, *known})
        return float(np.interp(share, shares, [known.get(at, 0.0) for at in shares]))


def check_reuse_profile(profile: ReuseProfile, where: str) -> None:
    """Raise InvalidCatalog unless the figures are possible. `where` begins each message."""
    for name, rows in (("neighbours", profile.neighbours), ("image_neighbours", profile.image_neighbours)):
        check_neighbours(rows, f"{where}: {name}")
    for name, floors in (("floors", profile.floors), ("image_floors", profile.image_floors)):
        for floor in floors:
            inside = -1 <= floor.similarity <= 1 and 0 <= floor.share < 1
            require(inside, f"{where}: {name}", floor, "similarities in [-1, 1] with shares in [0, 1)", ADVICE)
        rising = [floor.similarity for floor in floors], [floor.share for floor in floors]
        sorts = rising[0] == sorted(set(rising[0])) and rising[1] == sorted(rising[1])
        require(sorts, f"{where}: {name}", floors, "rising", ADVICE)
    for level, share in profile.hits.items():
        require(is_share(share), f"{where}: hits of {level}", share, "in [0, 1]", ADVICE)
    for level, loss in profile.losses.items():
        require(math.isfinite(loss), f"{where}: losses of {level}", loss, "finite", ADVICE)
    for verdict, known in profile.changes.items():
        if verdict not in VERDICTS:
            raise Unknown("verdict", verdict, VERDICTS)
        for share, change in known.items():
            fits = is_share(share) and math.isfinite(change)
            require(
                fits, f"{where}: changes of {verdict}", (share, change), "shares in [0, 1] with finite changes", ADVICE
            )
    for name in ("retrieval_ms", "retrieval_p95_ms"):
        require(is_amount(getattr(profile, name)), f"{where}: {name}", getattr(profile, name), ">= 0", ADVICE)


def check_neighbours(rows: Sequence[Neighbours], where: str) -> None:
    """Raise InvalidCatalog or Unknown unless similarities rise, and shares and verdicts are possible."""
    similarities = [row.similarity for row in rows]
    rises = similarities == sorted(set(similarities)) and all(-1 <= each <= 1 for each in similarities)
    require(rises, where, similarities, "rising in [-1, 1]", ADVICE)
    shares = [row.share for row in rows]
    fits = all(is_share(share) for share in shares) and math.fsum(shares) <= 1 + 1e-6
    require(fits, where, shares, "shares of all requests, 1 together at most", ADVICE)
    for row in rows:
        for verdict in row.verdicts:
            if verdict not in VERDICTS:
                raise Unknown("verdict", verdict, VERDICTS)
        total = math.fsum(row.verdicts.values())
        sums = not row.verdicts or (all(is_share(s) for s in row.verdicts.values()) and abs(total - 1) <= 1e-6)
        require(sums, f"{where}: verdicts at {row.similarity:g}", row.verdicts, "shares that sum to 1", ADVICE)
