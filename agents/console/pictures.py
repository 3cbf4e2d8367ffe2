"""Addresses of pictures on the pages, and the pictures themselves, small where many are shown.

An address carries the name of a stored image, sealed: a session reads what a page has shown, and nothing else.
"""

import asyncio
import io
from collections import OrderedDict
from typing import Final

from PIL import Image

from agents.gateway.signing import Seal
from schemas.errors import PochadeError
from streams.store.port import ImageStore, is_key

PATH: Final = "/pictures/"
SMALL_PX: Final = 384  # the longer side of a small picture
MAX_KEPT: Final = 400  # small pictures
MAX_KEPT_BYTES: Final = 32 * 2**20


class Picture:
    """The bytes of a picture, and their type."""

    def __init__(self, data: bytes, media_type: str) -> None:
        self.data, self.media_type = data, media_type


class Pictures:
    """Makes and reads addresses; used on one event loop."""

    def __init__(self, store: ImageStore, root: str, key: bytes) -> None:
        """`root`: with what every URI of the store begins."""
        self._store = store
        self._root = root
        self._seal = Seal(key, "picture:")
        self._small: OrderedDict[str, Picture] = OrderedDict()
        self._bytes = 0

    def address(self, uri: str) -> str:
        """Return the address of a picture; equal ones each time, so that browsers need not ask again."""
        return f"{PATH}{self._seal.sealed([uri.removeprefix(self._root)])}"

    def named(self, token: str) -> str | None:
        """Return the URI behind an address; None: it is not ours."""
        claims = self._seal.opened(token)
        if claims is None or not is_key(claims[0]):
            return None
        return f"{self._root}{claims[0]}"

    async def read(self, uri: str, *, is_small: bool) -> Picture:
        """Return a picture. Raises PochadeError: it is gone, damaged, or the store is away."""
        if not is_small:
            return Picture(await asyncio.to_thread(self._store.get, uri), "image/png")
        if uri in self._small:
            self._small.move_to_end(uri)
            return self._small[uri]
        picture = await asyncio.to_thread(lambda: small(self._store.get(uri)))
        self._small[uri] = picture
        self._bytes += len(picture.data)
        while len(self._small) > MAX_KEPT or self._bytes > MAX_KEPT_BYTES:
            _, left = self._small.popitem(last=False)
            self._bytes -= len(left.data)
        return picture


def small(data: bytes) -> Picture:
    """Return a picture with its longer side at most SMALL_PX; one that is small already as it is."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            if max(image.size) <= SMALL_PX:
                return Picture(data, "image/png")
            image.thumbnail((SMALL_PX, SMALL_PX))
            out = io.BytesIO()
            image.convert("RGB").save(out, "WEBP", quality=82)
    except OSError as error:
        raise PochadeError(f"a stored image cannot be read: {error}") from error
    return Picture(out.getvalue(), "image/webp")
