"""Sizes that other products have: an `aspect_ratio`, and sizes that no level generates.

By `gateway.foreign_sizes` the latter are refused, replaced by the nearest size that a level generates, or generated at
that size and scaled to what was asked.
"""

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from agents.gateway.refusals import INVALID, Refusal
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from schemas.vocabulary import DECLARED, SIZE

ASPECT: Final = "aspect_ratio"
RATIO: Final = re.compile(r"([1-9][0-9]{0,2}):([1-9][0-9]{0,2})")
REFUSE, SCALE = "refuse", "scale"
SIDE: Final = DECLARED["width"].about
SIDES: Final = ("size", "width", "height")
REFUSED: Final = (
    "the deployment's setting gateway.foreign_sizes (nearest or scale) has sizes replaced that no level has"
)

Size = tuple[int, int]  # width and height in px


class Sized(NamedTuple):
    """A body whose size can be generated, and what was done to it."""

    body: dict[str, Any]
    overridden: str = ""  # "size: 1024x1024 -> 64x64"; "": nothing was changed
    scaled_to: str = ""  # size of the answer's images; "": that of the generated ones


class Sizes:
    """What the levels of a catalog generate."""

    def __init__(self, catalog: Catalog, policy: str = REFUSE) -> None:
        """`policy`: of foreign sizes, as `gateway.foreign_sizes` has it."""
        self._catalog = catalog
        self._policy = policy
        self.ways = {"size": REFUSED} if policy == REFUSE else {}  # what to do about a size that is refused

    def of_ratio(self, body: Mapping[str, Any], model: str, prefix: str = "") -> dict[str, Any]:
        """Return a body with a size instead of its `aspect_ratio`: of about as many pixels as the model's own size.

        `model`: "" for any level. Raises Refusal if it is no ratio, stands beside a size, or no level has such sizes.
        """
        if (ratio := body.get(ASPECT)) is None:
            return {name: value for name, value in body.items() if name != ASPECT}
        param = f"{prefix}{ASPECT}"
        found = RATIO.fullmatch(ratio) if isinstance(ratio, str) else None
        if found is None:
            raise Refusal(INVALID, f"{ASPECT} must be WIDTH:HEIGHT, such as 16:9: got {ratio!r:.80}", param=param)
        if stated := [name for name in SIDES if body.get(name) is not None]:
            raise Refusal(INVALID, f"{ASPECT} states the size, and {stated[0]} too: give one of them", param=param)
        share, variants = Fraction(int(found[1]), int(found[2])), self._generating(model)
        wanted = [(math.sqrt(v.width * v.height * share), math.sqrt(v.width * v.height / share), v) for v in variants]
        made = [_nearest(v, width, height) for width, height, v in wanted if _is_free(v) or share * v.height == v.width]
        if not made:
            sizes = ", ".join(dict.fromkeys(f"{each.width}x{each.height}" for each in variants))
            raise Refusal(
                "unsupported", f"{ASPECT} must be that of a size there is ({sizes}): got {ratio}", param=param
            )
        return {name: value for name, value in body.items() if name != ASPECT} | {"size": "{}x{}".format(*made[0])}

    def placed(self, body: Mapping[str, Any], model: str) -> Sized:
        """Return a body with a size that a level of its model generates, by the policy.

        A client that states `strict: true` has it refused, and so is a size outside of all limits.
        """
        found = SIZE.fullmatch(size) if isinstance(size := body.get("size"), str) else None
        if self._policy == REFUSE or body.get("strict") is True or found is None:
            return Sized({**body})
        asked = int(found[1]), int(found[2])
        made = [_nearest(each, *asked) for each in self._generating(model)]
        if asked in made or not made or not all(map(SIDE.has, asked)):
            return Sized({**body})
        nearest = "{}x{}".format(*min(made, key=lambda each: _distance(each, asked)))
        is_scaled = self._policy == SCALE
        change = f"size: {size} -> {nearest}{', scaled' if is_scaled else ''}"
        return Sized({**body, "size": nearest}, change, str(size) if is_scaled else "")

    def _generating(self, model: str) -> Sequence[Variant]:
        served = self._catalog.served
        named = [each for name, each in served.items() if model in (name, *each.bases)]
        return named or list(self._catalog.variants.values())


def limits_of(variant: Variant) -> dict[str, Any]:
    """Return the options in numbers that a variant follows, with their limits."""
    said = {name: DECLARED[name].about for name in variant.honours if DECLARED[name].numbers}
    return {
        name: {"min": about.low, "max": about.high}
        | ({"multiple_of": _step(variant)} if name in ("width", "height") else {})
        for name, about in said.items()
    }


def _is_free(variant: Variant) -> bool:
    return {"width", "height"} <= {*variant.honours}


def _step(variant: Variant) -> int:
    return math.lcm(SIDE.multiple_of, variant.size_multiple)


def _nearest(variant: Variant, width: float, height: float) -> Size:
    if not _is_free(variant):
        return variant.width, variant.height
    step = _step(variant)
    low, high = math.ceil((SIDE.low or 1) / step), math.floor((SIDE.high or 1) / step)
    sides = [step * min(max(round(side / step), low), high) for side in (width, height)]
    return sides[0], sides[1]


def _distance(size: Size, asked: Size) -> float:
    return sum(abs(math.log(a / b)) for a, b in zip(size, asked, strict=True))
