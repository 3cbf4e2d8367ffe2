"""Brings a component to a tier: from its remote to the volume, from the volume into memory.

Bytes are compared with the list of files each time they change place; what does not agree is thrown away on the
volume and fetched again once.
"""

import contextlib
import hashlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType

from streams import metrics
from streams.weights.direct import CannotRead, Reading, read_file
from streams.weights.errors import DamagedWeights
from streams.weights.fetch import Transfer, retried
from streams.weights.manifest import Manifest
from streams.weights.pools import BufferPools
from streams.weights.remotes.remote import Remote, read_manifest
from streams.weights.volume import Volume

WEIGHTS = ".safetensors"


@dataclass(frozen=True, slots=True)
class HostComponent:
    """A component in memory: its safetensors files by path, and its other files, whole and compared."""

    manifest: Manifest
    files: Mapping[str, Reading]
    others: Mapping[str, bytes]  # configurations, vocabularies

    @property
    def bytes(self) -> int:
        """Bytes of memory that its weights fill."""
        return sum(reading.lease.size for reading in self.files.values())

    def buffer(self, path: str) -> memoryview:
        """Return a file's bytes."""
        return self.files[path].lease.view

    def release(self) -> None:
        """Give its buffers back. Raises BufferError while a tensor points into one."""
        for reading in self.files.values():
            reading.lease.release()

    def __enter__(self) -> "HostComponent":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


class WeightsLoader:
    """Loads components from their remotes by way of one volume into one set of pools."""

    def __init__(self, volume: Volume, pools: BufferPools) -> None:
        self._volume, self._pools = volume, pools

    def to_volume(self, remote: Remote, digest: str) -> tuple[pathlib.Path, Transfer]:
        """Return the folder of a component, fetched if need be, and what that took. Raises what `Volume.fetch` does."""
        if (found := self._volume.path(digest)) is not None:
            return found, Transfer()
        asking = Transfer()
        listed = retried(lambda: read_manifest(remote, digest), asking)
        transfer = self._volume.fetch(remote, listed)
        transfer.add(retries=asking.retries)
        found = self._volume.path(digest)
        assert found is not None, f"{digest} was fetched and is not there"
        return found, transfer

    def to_host(self, remote: Remote, digest: str) -> HostComponent:
        """Return a component's weights in memory, its caller's to release.

        Raises:
            DamagedWeights: the volume's bytes differ again after they were fetched anew: its disk is at fault.
            Others: as `to_volume`, and CannotRead.
        """
        self.to_volume(remote, digest)
        try:
            return self._read(digest)
        except DamagedWeights:
            metrics.FALLBACKS.labels("weights", "fetched_again").inc()
            self._volume.remove(digest)
            self.to_volume(remote, digest)
            return self._read(digest)

    def _read(self, digest: str) -> HostComponent:
        with self._volume.using(digest) as folder, _released_on_error() as add:
            listed = self._volume.manifest(digest)
            others = {
                file.path: _compared(folder / file.path, file.sha256)
                for file in listed.files
                if not file.path.endswith(WEIGHTS)
            }
            files = {
                file.path: add(read_file(folder / file.path, file.bytes, file.sha256, self._pools))
                for file in listed.files
                if file.path.endswith(WEIGHTS)
            }
            return HostComponent(listed, files, others)


def _compared(path: pathlib.Path, sha256: str) -> bytes:
    """Return a small file's bytes. Raises DamagedWeights, CannotRead."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DamagedWeights(f"{path} is gone, though its component's list names it: it was altered") from None
    except OSError as error:
        raise CannotRead(f"cannot read {path}: {error.strerror}") from error
    if (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise DamagedWeights(f"{path} has sha-256 {found}, its component's list says {sha256}: it was altered")
    return data


@contextlib.contextmanager
def _released_on_error() -> Iterator[Callable[[Reading], Reading]]:
    """Yield a function that keeps readings, which are released if the block fails."""
    kept = list[Reading]()

    def add(reading: Reading) -> Reading:
        kept.append(reading)
        return reading

    try:
        yield add
    except BaseException:
        for reading in kept:
            reading.lease.release()
        raise
