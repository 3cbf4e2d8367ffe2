"""Checks that what a model has made is an image: its numbers are finite, and its pixels are not all of one colour.

NaN in a model or its decoder comes out as an image that is black all over, and half precision overflows so.
"""

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
    if latents is not None and not bool(latents.isfinite().all()):
        raise BadImage("the model made latents that are not finite (NaN or infinite): its precision may be too low")
    for image in images:
        if is_plain(image):
            raise BadImage(f"all pixels of the image are {image.getpixel((0, 0))}: its decoder has failed")


def is_plain(image: Image) -> bool:
    """Whether all pixels of an image are equal. Of most others one line is looked at."""
    middle = image.height // 2
    return _is_flat(image.crop((0, middle, image.width, middle + 1))) and _is_flat(image)


def _is_flat(image: Image) -> bool:
    return all(low == high for low, high in (band.getextrema() for band in image.split()))
