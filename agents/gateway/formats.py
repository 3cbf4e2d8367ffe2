"""Encodes stored images in the format that a client asks for."""

import io
from typing import Any, Final, NamedTuple

from PIL import Image

PNG, JPEG, WEBP = "png", "jpeg", "webp"
NAMES: Final = (PNG, JPEG, WEBP)
COMPRESSED: Final = (JPEG, WEBP)  # those with a quality
BEST: Final = 100


class Format(NamedTuple):
    """An image format with its quality."""

    name: str = PNG  # of NAMES
    quality: int = BEST  # [0, 100] of jpeg and webp; webp at 100 is lossless
    size: str = ""  # WIDTHxHEIGHT that the image is scaled to; "": as it is stored

    @property
    def media_type(self) -> str:
        """Its name in HTTP."""
        return f"image/{self.name}"


def encoded(data: bytes, wanted: Format) -> bytes:
    """Return a stored PNG image in a format; as PNG the bytes are the stored ones."""
    if wanted.name == PNG and not wanted.size:
        return data
    with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
        plain = image.convert("RGB")
    if wanted.size:
        width, height = map(int, wanted.size.split("x"))
        plain = plain.resize((width, height), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    plain.save(out, wanted.name.upper(), **_options(wanted))
    return out.getvalue()


def size_of(data: bytes) -> str:
    """Return the size of an image in one of our formats, such as 64x48, in px."""
    with Image.open(io.BytesIO(data), formats=[name.upper() for name in NAMES]) as image:
        return f"{image.width}x{image.height}"


def _options(wanted: Format) -> dict[str, Any]:
    if wanted.name == JPEG:
        return {"quality": max(1, wanted.quality)} | ({"subsampling": 0} if wanted.quality == BEST else {})
    if wanted.name == PNG:
        return {"compress_level": 1}
    return {"lossless": True} if wanted.quality == BEST else {"quality": wanted.quality}
