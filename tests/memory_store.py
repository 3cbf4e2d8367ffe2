"""An image store in memory; the tests of all stores test it, too."""

import time
from collections.abc import Iterator

from schemas.errors import PochadeError
from streams.store.port import Stored, Unreadable, key_of


class MemoryImageStore:
    """Its URIs begin with `memory:`."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, int]] = {}  # uri -> (data, epoch ms)

    def put(self, name: str, data: bytes, extension: str = "png") -> str:
        uri = f"memory:{key_of(name, data, extension)}"
        self._objects.setdefault(uri, (data, time.time_ns() // 1_000_000))
        return uri

    def get(self, uri: str) -> bytes:
        self._refuse_foreign(uri)
        if uri not in self._objects:
            raise Unreadable(f"{uri} has gone: it is not in this store")
        return self._objects[uri][0]

    def list(self, older_than_ms: int) -> Iterator[Stored]:
        for uri, (data, modified_ms) in list(self._objects.items()):
            if modified_ms < older_than_ms:
                yield Stored(uri, modified_ms, len(data))

    def delete(self, uri: str) -> None:
        self._refuse_foreign(uri)
        self._objects.pop(uri, None)

    def _refuse_foreign(self, uri: str) -> None:
        if not uri.startswith("memory:"):
            raise PochadeError(f"{uri} is not an image of this store: its URIs start with memory:")
