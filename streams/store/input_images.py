"""Reads the images that requests begin with or follow: what `pochade put` stores and a worker opens, and nothing else.

Whoever may send requests chooses these bytes, so that their size is known from their head before a pixel is decoded.
"""

import io
import pathlib
import warnings
from typing import Final

from PIL import Image, UnidentifiedImageError

from schemas.errors import InvalidRequest

FORMATS: Final = ("PNG", "JPEG", "WEBP")  # by other readers of PIL's, files can start programs or take minutes
EXTENSIONS: Final = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp"}
MAX_BYTES: Final = 20 * 2**20
MAX_SIDE: Final = 8192  # px
MAX_AREA: Final = 2**25  # px, 100 MB decoded: a file of some KB can be as large as both sides allow


class InvalidInput(InvalidRequest):
    """Bytes that are no image to begin with or to follow, and why."""


def open_input(data: bytes, what: str) -> Image.Image:
    """Return an image, decoded, in the mode that its file has. `what` begins each message.

    Raises:
        InvalidInput: more than MAX_BYTES, a side above MAX_SIDE, more than MAX_AREA pixels, several frames, or none of
            FORMATS (SVG, which is a program, is none), or it does not decode.
    """
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"{what} must have at most {MAX_BYTES} bytes: got {len(data)}; shrink it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            _check(image, what)
            image.load()
            return image
    except InvalidInput:
        raise
    except UnidentifiedImageError:
        known = ", ".join(FORMATS)
        raise InvalidInput(f"{what} is no image of a known format ({known}): it begins {data[:12]!r}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InvalidInput(f"{what} has too many pixels: {error}; shrink it") from None
    except (OSError, SyntaxError, ValueError, MemoryError) as error:  # what PIL raises for broken bytes
        raise InvalidInput(f"{what} does not decode: {error}") from None


def _check(image: Image.Image, what: str) -> None:
    width, height = image.size
    if max(width, height) > MAX_SIDE:
        raise InvalidInput(f"{what} must have at most {MAX_SIDE} px a side: got {width} x {height}; shrink it")
    if width * height > MAX_AREA:
        raise InvalidInput(f"{what} must have at most {MAX_AREA} px in all: got {width} x {height}; shrink it")
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        raise InvalidInput(f"{what} must be one image: got {frames} frames; store the one that is meant")


def extension_of(path: pathlib.Path, image: Image.Image) -> str:
    """Return the extension under which a file's image is stored: that of what it is, not of what it is called."""
    return EXTENSIONS.get(image.format or "", path.suffix.lstrip(".") or "png")
