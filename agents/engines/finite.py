"""Checks that what a model has made is an image: its numbers are finite, and its pixels are not all of one colour.

NaN in a model or its decoder comes out as an image that is black all over, and half precision overflows so.
"""

import math
from collections.abc import Sequence
from typing import Any

from PIL.Image import Image

from schemas.errors import PochadeError


class BadImage(PochadeError):
    """A call has made something that is no image; its job is generated once more, elsewhere."""


def check_made(images: Sequence[Image], latents: Any = None) -> None:
    """Check the images of a call, and the latents (a tensor, if there are any) that they were decoded from.

    Raises BadImage: a latent is not finite, or all pixels of an image are equal.
    """
    if latents is not None and not _are_finite(latents):
        raise BadImage("the model made latents that are not finite (NaN or infinite): its precision may be too low")
    for image in images:
        if is_plain(image):
            raise BadImage(f"all pixels of the image are {image.getpixel((0, 0))}: its decoder has failed")


def is_plain(image: Image) -> bool:
    """Whether all pixels of an image are equal. Of most others three are looked at."""
    first, middle = image.getpixel((0, 0)), image.getpixel((image.width // 2, image.height // 2))
    if first != middle or first != image.getpixel((image.width // 3, image.height // 3)):
        return False
    return all(low == high for low, high in (band.getextrema() for band in image.split()))


def _are_finite(values: Any) -> bool:
    low, high = values.aminmax()  # NaN if one is: five times as quick as to look at each
    return math.isfinite(float(high.float() - low.float()))
