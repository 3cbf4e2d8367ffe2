"""The object store: bytes under write-once keys that carry the content's hash, so what a result names never changes."""

import hashlib
import os
import pathlib
import re
import tempfile
from typing import Protocol
from urllib.parse import unquote, urlsplit

from schemas.errors import PochadeError
from streams.settings import Settings

SAFE = re.compile(r"[^A-Za-z0-9._-]")


class StoreUnavailable(PochadeError):
    """The store cannot be reached or is full: a reason to wait, not to drop."""


class ImageStore(Protocol):
    """Keeps pictures. `put` of the same bytes under the same name is one object, however often it happens."""

    def put(self, name: str, data: bytes, extension: str = "png") -> str:
        """Store bytes; the returned URI names exactly these bytes for ever. Raises StoreUnavailable."""
        ...

    def get(self, uri: str) -> bytes:
        """The bytes of a URI. Raises PochadeError if it is not one of this store's or has gone."""
        ...


def key_of(name: str, data: bytes, extension: str) -> str:
    """The key of these bytes: two hex digits to spread folders, the name, and the hash of the content."""
    digest = hashlib.sha256(data).hexdigest()
    return f"{digest[:2]}/{SAFE.sub('_', name)[:80]}-{digest[:16]}.{extension}"


class FolderImageStore:
    """`ImageStore` in a folder; `file://` URIs. A write appears whole or not at all."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder.resolve()

    def put(self, name: str, data: bytes, extension: str = "png") -> str:
        path = self._folder / key_of(name, data, extension)
        if path.exists():
            return path.as_uri()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as draft:
                draft.write(data)
            os.replace(draft.name, path)
        except OSError as error:
            raise StoreUnavailable(f"cannot write {path}: {error.strerror}; free space or set store.folder") from error
        return path.as_uri()

    def get(self, uri: str) -> bytes:
        parts = urlsplit(uri)
        path = pathlib.Path(unquote(parts.path))
        if parts.scheme != "file" or not path.resolve().is_relative_to(self._folder):
            raise PochadeError(f"{uri} is not a picture of the store at {self._folder}")
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise PochadeError(f"{uri} has gone: it was collected or the folder was moved") from None


class MemoryImageStore:
    """Shipped stand-in for tests; `memory:` URIs."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}

    def put(self, name: str, data: bytes, extension: str = "png") -> str:
        uri = f"memory:{key_of(name, data, extension)}"
        self._objects.setdefault(uri, data)
        return uri

    def get(self, uri: str) -> bytes:
        if uri not in self._objects:
            raise PochadeError(f"{uri} is not in this store")
        return self._objects[uri]


def open_store(settings: Settings) -> ImageStore:
    """The store that the settings name."""
    return FolderImageStore(pathlib.Path(settings.store.folder or settings.home / "images"))
