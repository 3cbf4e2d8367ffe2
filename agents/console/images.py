"""Images on the pages, with thumbnails, and their addresses.

An address holds the sealed name of a stored image: a session reads only images that a page has shown.
"""

import asyncio
import io
from collections import OrderedDict
from typing import Final

from agents.gateway.signing import Seal
from schemas.errors import PochadeError
from streams.store.input_images import open_stored
from streams.store.port import ImageStore, is_key

PATH: Final = "/images/"
THUMBNAIL_PX: Final = 384  # the longer side of a thumbnail
MAX_THUMBNAILS: Final = 400  # in memory
MAX_THUMBNAIL_BYTES: Final = 32 * 2**20


class EncodedImage:
    """The bytes of an image file, and their media type."""

    def __init__(self, data: bytes, media_type: str) -> None:
        self.data, self.media_type = data, media_type


class SealedImages:
    """Seals names of stored images into addresses, and reads the images behind them; used on one event loop."""

    def __init__(self, store: ImageStore, root: str, key: bytes) -> None:
        """`root`: the prefix of every URI of the store."""
        self._store = store
        self._root = root
        self._seal = Seal(key, "image:")
        self._thumbnails: OrderedDict[str, EncodedImage] = OrderedDict()
        self._thumbnail_bytes = 0

    def address(self, uri: str) -> str:
        """Return the address of an image, always the same, so that browsers can cache it."""
        return f"{PATH}{self._seal.sealed([uri.removeprefix(self._root)])}"

    def named(self, token: str) -> str | None:
        """Return the URI in an address; None if it is forged."""
        claims = self._seal.opened(token)
        if claims is None or not is_key(claims[0]):
            return None
        return f"{self._root}{claims[0]}"

    async def read(self, uri: str, *, is_small: bool) -> EncodedImage:
        """Return an image. Raises PochadeError if it is deleted or damaged, or the store does not answer."""
        if not is_small:
            return EncodedImage(await asyncio.to_thread(self._store.get, uri), "image/png")
        if uri in self._thumbnails:
            self._thumbnails.move_to_end(uri)
            return self._thumbnails[uri]
        image = await asyncio.to_thread(lambda: thumbnail(self._store.get(uri)))
        self._thumbnails[uri] = image
        self._thumbnail_bytes += len(image.data)
        while len(self._thumbnails) > MAX_THUMBNAILS or self._thumbnail_bytes > MAX_THUMBNAIL_BYTES:
            _, left = self._thumbnails.popitem(last=False)
            self._thumbnail_bytes -= len(left.data)
        return image


def thumbnail(data: bytes) -> EncodedImage:
    """Return an image with its longer side at most THUMBNAIL_PX; a smaller one unchanged."""
    try:
        with open_stored(data) as image:
            if max(image.size) <= THUMBNAIL_PX:
                return EncodedImage(data, "image/png")
            image.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX))
            out = io.BytesIO()
            image.convert("RGB").save(out, "WEBP", quality=82)
    except OSError as error:
        raise PochadeError(f"a stored image cannot be read: {error}") from error
    return EncodedImage(out.getvalue(), "image/webp")
