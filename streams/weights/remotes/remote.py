"""The port to where components are kept for good: a folder, or a bucket of S3."""

import pathlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from streams.weights import manifest
from streams.weights.manifest import Manifest


class RemoteFile(NamedTuple):
    """A file of a remote as it is now."""

    bytes: int
    version: str  # changes when the file does


class Remote(Protocol):
    """Files of one component under one place; any thread may ask.

    Every method raises StoreUnavailable where the remote does not answer now, which is worth another try, WeightsGone
    for a file that is not there, and PochadeError where another try cannot help.
    """

    @property
    def url(self) -> str:
        """The place, for messages."""

    def stat(self, path: str) -> RemoteFile:
        """Return size and version of a file."""

    def read_into(self, path: str, version: str, offset: int, buffer: memoryview) -> int:
        """Fill a buffer from an offset on; return how many bytes came, fewer where the connection broke.

        Raises StoreUnavailable if none came, WeightsGone if the file has another version by now.
        """

    def put(self, path: str, file: pathlib.Path, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        """Copy a local file there, replacing one of this name; `on_bytes` gets, on any thread, the bytes sent since."""


def read_manifest(remote: Remote, digest: str = "") -> Manifest:
    """Read the component's list of files from its remote.

    Raises:
        WeightsGone: there is no list.
        StoreUnavailable: the remote does not answer.
        InvalidManifest, DamagedWeights: the list is none, or not the one of this digest.
    """
    where = f"{remote.url}/{manifest.NAME}"
    seen = remote.stat(manifest.NAME)
    if seen.bytes > manifest.MAX_BYTES:
        raise manifest.InvalidManifest(f"{where} must have at most {manifest.MAX_BYTES} bytes: got {seen.bytes}")
    buffer = bytearray(seen.bytes)
    done = 0
    while done < len(buffer):
        came = remote.read_into(manifest.NAME, seen.version, done, memoryview(buffer)[done:])
        done += came
    return manifest.parse(buffer.decode(errors="replace"), where, digest)
