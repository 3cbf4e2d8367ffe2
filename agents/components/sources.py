"""Sources of a worker's components: folders on this machine, or a remote by way of a volume.

What is read is compared with the digest that the catalog has of a component: other bytes reach no memory.
"""

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from agents.components.host import HostWeights
from agents.components.scratch import Scratch
from agents.components.weight_files import ComponentFailed, digest_of_digests, weight_files
from planner.catalog.components import Component
from schemas.errors import PochadeError
from streams import metrics
from streams.weights.direct import Reading, read_hashed
from streams.weights.errors import ComponentInUse, VolumeFull
from streams.weights.fetch import Transfer, retried
from streams.weights.loader import WEIGHTS, WeightsLoader
from streams.weights.manifest import Manifest
from streams.weights.pools import BufferPools
from streams.weights.remotes.remote import Remote, read_manifest
from streams.weights.volume import Volume


class Source(Protocol):
    """The volume of a worker and what is behind it; any thread may ask, of one component one at a time."""

    def on_volume(self) -> frozenset[str]:
        """Return the ids of the components that lie on the volume, whole."""

    def fetch(self, id_: str) -> None:
        """Bring a component from its remote to the volume, unless it is there.

        Raises VolumeFull; ComponentFailed for anything else that keeps it away.
        """

    def read(self, id_: str) -> HostWeights | None:
        """Read a component from the volume into memory; its caller's to release. None: only a library can read it.

        Raises ComponentFailed: it is damaged, or cannot be read.
        """

    def drop(self, id_: str) -> bool:
        """Remove a component from the volume; False: another process uses it, and it stays."""


class InPlace:
    """Components where the catalog says that they lie, which counts as the volume: nothing is fetched or removed.

    A hub id is left to the library that knows its cache.
    """

    def __init__(
        self, components: Mapping[str, Component], paths: Mapping[str, pathlib.Path], pools: BufferPools
    ) -> None:
        """`paths`: folder or file of each component by id; those with a hub id are left out."""
        self._components, self._paths, self._pools = components, paths, pools

    def on_volume(self) -> frozenset[str]:
        return frozenset(self._paths)

    def fetch(self, id_: str) -> None:
        del id_

    def read(self, id_: str) -> HostWeights | None:
        source = self._paths.get(id_)
        if source is None:
            return None
        folder = source.parent if source.is_file() else source
        with _released_on_error() as files:
            digests: dict[str, str] = {}
            try:
                for file in weight_files(source):
                    path = file.relative_to(folder).as_posix()
                    files[path], digests[path] = read_hashed(file, file.stat().st_size, self._pools)
            except (PochadeError, OSError) as error:
                raise ComponentFailed(f"{id_} at {source} cannot be read: {error}") from error
            digest = check_digest(self._components[id_], digests, str(source))
            return HostWeights(id_, folder, dict(files), has_all_files=True, digest=digest)

    def drop(self, id_: str) -> bool:
        del id_
        return False


class Fetched:
    """Components of a remote, fetched to a volume of this machine, which other workers may share."""

    def __init__(
        self,
        components: Mapping[str, Component],
        volume: Volume,
        remote_of: Callable[[Component], Remote],
        pools: BufferPools,
        wait: Callable[[float], None] | None = None,
    ) -> None:
        """`wait`: sleeps between tries to reach the remote; None for real sleep."""
        self._components, self._volume, self._remote_of = components, volume, remote_of
        self._loader, self._pools = WeightsLoader(volume, pools), pools
        self._wait: dict[str, Callable[[float], None]] = {"wait": wait} if wait else {}
        self._digests: dict[str, str] = {}  # of the lists of files that were seen
        self.transfer = Transfer()  # of all fetches
        self._scratch = Scratch()
        self._scan_volume()

    def on_volume(self) -> frozenset[str]:
        return frozenset(id_ for id_, digest in self._digests.items() if self._volume.path(digest) is not None)

    def _scan_volume(self) -> None:
        """Find out which components earlier processes left on the volume."""
        for digest in self._volume.ready():
            with contextlib.suppress(PochadeError, OSError):  # not readable: it is fetched again
                listed = self._volume.manifest(digest)
                component = self._components.get(listed.component)
                if component is not None and _is_of(listed, component):
                    self._know(listed.component, listed)

    def fetch(self, id_: str) -> None:
        component = self._components[id_]
        with self._as_component_failed(component):
            remote = self._remote_of(component)
            listed = retried(lambda: read_manifest(remote), self.transfer, **self._wait)
            check_digest(component, weights_of(listed), remote.url)
            done = self._volume.fetch(remote, listed)
            self.transfer.add(fetched=done.fetched_bytes, kept=done.kept_bytes, retries=done.retries)
            self._know(id_, listed)

    def _know(self, id_: str, listed: Manifest) -> None:
        """Take note of a component's list; there are pools for its weight files before they are read."""
        if self._digests.get(id_) != listed.digest:
            self._pools.expect(file.bytes for file in listed.files if file.path.endswith(WEIGHTS))
        self._digests[id_] = listed.digest

    def read(self, id_: str) -> HostWeights | None:
        component = self._components[id_]
        with self._as_component_failed(component):
            digest = digest_of_digests(weights_of(self._volume.manifest(self._digests[id_])))
            host = self._loader.to_host(self._remote_of(component), self._digests[id_])
            scratch, folder = self._scratch, self._scratch.folder()
            for path, data in host.others.items():
                target = pathlib.Path(folder.name) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)

            def close() -> None:
                folder.cleanup()
                assert scratch is not None, "it lasts for as long as its folders do"

            return HostWeights(
                id_, pathlib.Path(folder.name), host.files, has_all_files=False, close=close, digest=digest
            )

    def drop(self, id_: str) -> bool:
        try:
            self._volume.remove(self._digests[id_])
        except ComponentInUse:
            metrics.FALLBACKS.labels("worker", "component-in-use").inc()
            return False
        return True

    @contextlib.contextmanager
    def _as_component_failed(self, component: Component) -> Iterator[None]:
        """Raise ComponentFailed, which names the component, for what reading its files raises."""
        try:
            yield
        except (VolumeFull, ComponentFailed):
            raise
        except (PochadeError, OSError) as error:
            raise ComponentFailed(f"{component.id} cannot be loaded: {error}") from error


def check_digest(component: Component, digests: Mapping[str, str], where: str) -> str:
    """Hold weight files (path -> sha-256) against the digest that the catalog has, if any; return theirs.

    Raises ComponentFailed: they differ.
    """
    found = digest_of_digests(digests)
    if component.sha256 and found != component.sha256:
        raise ComponentFailed(
            f"{component.id} at {where} is damaged or another: its sha256 is {found}, the catalog's "
            f"{component.sha256}; restore it, or correct the catalog"
        )
    return found


def weights_of(listed: Manifest) -> dict[str, str]:
    """Return path -> sha-256 of a component's weight files."""
    return {file.path: file.sha256 for file in listed.files if file.path.endswith(WEIGHTS)}


def _is_of(listed: Manifest, component: Component) -> bool:
    return not component.sha256 or digest_of_digests(weights_of(listed)) == component.sha256


@contextlib.contextmanager
def _released_on_error() -> Iterator[dict[str, Reading]]:
    files: dict[str, Reading] = {}
    try:
        yield files
    except BaseException:
        for reading in files.values():
            reading.lease.recycle()
        raise
