"""The mark of a request in latents and images of the engine `profile`.

A real image resembles the one from whose latent it began. An image of the engine `profile` has that request's mark
instead, so that an audit finds from the image alone which latent was used.
"""

import hashlib
from typing import Final

import numpy as np
from PIL import Image

BYTES: Final = 8


def mark_of(request_id: str) -> bytes:
    """Return the mark of a request."""
    return hashlib.sha256(request_id.encode("utf-8", "surrogatepass")).digest()[:BYTES]


def sign(values: np.ndarray, request_id: str) -> None:
    """Write the mark of a request into a latent's first values; one that is too small stays as it is."""
    if values.size >= BYTES:
        values.reshape(-1)[:BYTES] = np.frombuffer(mark_of(request_id), np.uint8)


def signature(values: np.ndarray) -> bytes:
    """Return the mark in a latent's first values, whatever they are."""
    first = np.nan_to_num(values.reshape(-1)[:BYTES].astype(np.float64))
    return bytes(np.clip(first, 0, 255).astype(np.uint8))


def show(image: Image.Image, mark: bytes) -> None:
    """Draw a mark into the first pixels of an RGB image's last row, as greys."""
    for x, grey in enumerate(mark[: image.width]):
        image.putpixel((x, image.height - 1), (grey, grey, grey))


def shown(image: Image.Image) -> bytes:
    """Return the mark in an image's last row; for an image without a mark, bytes that are no request's mark."""
    rgb = image.convert("RGB")
    row = [rgb.getpixel((x, rgb.height - 1)) for x in range(min(BYTES, rgb.width))]
    return bytes(pixel[0] for pixel in row if isinstance(pixel, tuple))
