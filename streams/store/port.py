"""The object store: bytes under write-once keys that carry the content's hash, so what a result names never changes."""

import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from schemas.errors import PochadeError

SAFE = re.compile(r"[^A-Za-z0-9._-]")
KEY = re.compile(r"[0-9a-f]{2}/[A-Za-z0-9._-]{0,80}-[0-9a-f]{16}\.[A-Za-z0-9]{1,16}")  # what `key_of` makes


class StoreUnavailable(PochadeError):
    """The store cannot be reached, or does not take or give anything now: a reason to wait, not to drop."""


class Unreadable(PochadeError):
    """An object that is gone, cannot be read yet, or is damaged. The bytes may come: read it again for a while."""


class Stored(NamedTuple):
    """An object of a store."""

    uri: str
    modified_ms: int  # epoch ms
    bytes: int


class ImageStore(Protocol):
    """Keeps images; any thread may ask. Every method raises StoreUnavailable, which its callers wait out.

    A URI that is not one of this store's is refused with PochadeError.
    """

    def put(self, name: str, data: bytes, extension: str = "png") -> str:
        """Store bytes, and check that they are there; the URI names exactly these bytes for ever.

        Repeating it changes nothing, but for an object that is damaged: that is written again.
        """

    def get(self, uri: str) -> bytes:
        """Return the bytes of a URI, exactly as they were put. Raises Unreadable if they are gone or damaged."""

    def list(self, older_than_ms: int) -> Iterator[Stored]:
        """Yield what was written before this moment (epoch ms), in no order; half-written leftovers of a crash too."""

    def delete(self, uri: str) -> None:
        """Remove an object for good; one that has gone already is fine."""


def key_of(name: str, data: bytes, extension: str) -> str:
    """The key of these bytes: two hex digits to spread folders, the name, and the hash of the content."""
    digest = hashlib.sha256(data).hexdigest()
    return f"{digest[:2]}/{SAFE.sub('_', name)[:80]}-{digest[:16]}.{extension}"


def is_content(key: str, data: bytes) -> bool:
    """Whether these are the bytes that a key of `key_of` names: a disk may have lost some of them."""
    return key.rpartition("-")[2].partition(".")[0] == hashlib.sha256(data).hexdigest()[:16]


def is_key(key: str) -> bool:
    """Whether `key_of` could have made it: asking for anything else might never be answered with "gone"."""
    return KEY.fullmatch(key) is not None
