"""A volume: the local disk on which components lie ready, each in a folder that appears whole or not at all.

    ready/DIGEST/PATH                    the files of a component, and their list, component.json
    partial/DIGEST/files/PATH            files that are whole; the folder becomes ready/DIGEST when all are
    partial/DIGEST/drafts/N, N.parts     a file that is being fetched, and its journal
    removed/NAME                         on its way out
    locks/DIGEST, locks/volume           locked by flock, so that a process that dies holds none
    compiled/                            code of compiled variants, with a budget of its own
                                         (`agents/engines/compiling/cache.py`)

Any number of processes may share a volume. One fetches a component while others that need it wait. A reader holds a
component (`using`), and a held one is not removed. Callers decide what to remove: a component without room is refused
with the number of missing bytes.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Final

from schemas.errors import PochadeError
from streams import metrics
from streams.locks import try_lock
from streams.store.folder import sync_folder
from streams.weights import manifest
from streams.weights.draft import Draft, full_disk, part_size
from streams.weights.errors import ComponentInUse, VolumeFull, WeightsGone
from streams.weights.fetch import RANGES, Transfer, fetch_file
from streams.weights.manifest import ComponentFile, Manifest, is_sha256
from streams.weights.pools import BufferPools
from streams.weights.remotes.remote import Remote

LOCK_TIMEOUT_S: Final = 600.0  # how long another process may take to fetch
POLL_S: Final = 0.02


class Volume:
    """A volume at a folder, with a budget in bytes for all components together."""

    def __init__(
        self, folder: pathlib.Path, budget_bytes: int, pools: BufferPools | None = None, *, ranges: int = RANGES,
        lock_timeout_s: float = LOCK_TIMEOUT_S, wait: Callable[[float], None] | None = None,
    ) -> None:  # fmt: skip
        """`pools`: buffers of fetches; None for its own. `wait`: sleeps between tries of a fetch; None for real sleep.

        Raises OSError where the folder cannot be made.
        """
        self.folder, self.budget_bytes = folder.resolve(), budget_bytes
        self._pools = pools or BufferPools(
            [part_size(1 << 62, ranges) >> shift for shift in range(5)], (2 * ranges + 1) << 24
        )
        self._ranges, self._lock_timeout_s, self._wait = ranges, lock_timeout_s, wait
        self._ready, self._partial, self._removed, self._locks = (
            self.folder / name for name in ("ready", "partial", "removed", "locks")
        )
        for each in (self._ready, self._partial, self._removed, self._locks):
            each.mkdir(parents=True, exist_ok=True)
        self._sweep()

    def path(self, digest: str) -> pathlib.Path | None:
        """Return the folder of a component that is ready, or None."""
        found = self._ready / _checked(digest)
        return found if found.is_dir() else None

    def manifest(self, digest: str) -> Manifest:
        """Return the list of a component that is ready. Raises WeightsGone, DamagedWeights, InvalidManifest."""
        listed = self._ready / _checked(digest) / manifest.NAME
        try:
            text = listed.read_text(errors="replace")
        except FileNotFoundError:
            raise WeightsGone(f"component {digest} is not on the volume {self.folder}: fetch it") from None
        return manifest.parse(text, str(listed), digest)

    def ready(self) -> dict[str, int]:
        """Return the size in bytes of each component that is ready, by digest."""
        return {path.name: _bytes_in(path) for path in self._ready.iterdir() if is_sha256(path.name)}

    def partial(self) -> dict[str, int]:
        """Return the bytes that each interrupted or running fetch has reserved, by digest."""
        return {path.name: _bytes_in(path) for path in self._partial.iterdir() if is_sha256(path.name)}

    def used_bytes(self) -> int:
        """Return the bytes of all components, those that are being fetched included."""
        return sum(self.ready().values()) + sum(self.partial().values())

    def fetch(self, remote: Remote, listed: Manifest) -> Transfer:
        """Bring a component's files here; what an interrupted fetch left is used.

        Raises:
            VolumeFull: no room, by the budget or on the disk; nothing is kept of this component.
            DamagedWeights: a file of the remote is not the one that is listed.
            StoreUnavailable, WeightsGone, PochadeError, OSError: as `fetch_file`; what came is kept for the next
            attempt.
        """
        transfer = Transfer()
        digest = listed.digest
        with self._locked(digest, fcntl.LOCK_EX, self._lock_timeout_s):
            if self.path(digest) is not None:
                return transfer
            partial = self._partial / digest
            try:
                drafts = self._reserve_somehow(partial, listed)
            except VolumeFull:
                shutil.rmtree(partial, ignore_errors=True)
                raise
            with contextlib.ExitStack() as open_drafts:
                for draft in drafts.values():
                    open_drafts.callback(draft.close)
                for file, draft in drafts.items():
                    fetch_file(remote, file, draft, self._pools, transfer, self._ranges, self._wait)
                    draft.finish(partial / "files" / file.path)
            self._publish(partial, listed)
        return transfer

    def reclaim(self) -> int:
        """Remove the remains of fetches that no process continues now; return the bytes freed."""
        freed = 0
        for digest, size in self.partial().items():
            with contextlib.suppress(ComponentInUse, FileNotFoundError), self._locked(digest, fcntl.LOCK_EX, 0.0):
                self._put_away(self._partial / digest)
                freed += size
        return freed

    def _reserve_somehow(self, partial: pathlib.Path, listed: Manifest) -> dict[ComponentFile, Draft]:
        """As `_reserve`, in the room that interrupted fetches of other components take, where there is no other."""
        try:
            return self._reserve(partial, listed)
        except VolumeFull:
            if not self.reclaim():
                raise
            metrics.FALLBACKS.labels("weights", "reclaimed").inc()
            return self._reserve(partial, listed)

    def _reserve(self, partial: pathlib.Path, listed: Manifest) -> dict[ComponentFile, Draft]:
        """The drafts of the files that are not whole yet, at their full size, if the volume has room for all."""
        with self._locked("volume", fcntl.LOCK_EX, self._lock_timeout_s):
            needed, used = listed.bytes, self.used_bytes()
            others = used - _bytes_in(partial)
            if (missing := others + needed - self.budget_bytes) > 0:
                raise VolumeFull(
                    f"component {listed.component} needs {needed} bytes: the volume {self.folder} has {others} of its "
                    f"{self.budget_bytes} bytes in use; remove {missing} bytes or raise its budget",
                    missing,
                )
            for name in ("files", "drafts"):
                (partial / name).mkdir(parents=True, exist_ok=True)
            drafts = dict[ComponentFile, Draft]()
            try:
                for number, file in enumerate(listed.files):
                    if not _is_whole(partial / "files" / file.path, file):
                        size = part_size(file.bytes, self._ranges)
                        drafts[file] = Draft(partial / "drafts" / str(number), file, size)
            except BaseException:
                for draft in drafts.values():
                    draft.close()
                raise
        return drafts

    def _publish(self, partial: pathlib.Path, listed: Manifest) -> None:
        files = partial / "files"
        with full_disk(files, 0):
            with (files / manifest.NAME).open("w") as text:
                text.write(listed.as_json())
                text.flush()
                os.fsync(text.fileno())
            for folder in (files, *(path for path in files.rglob("*") if path.is_dir())):
                sync_folder(folder)
            os.rename(files, self._ready / listed.digest)
            sync_folder(self._ready)
        shutil.rmtree(partial, ignore_errors=True)

    @contextlib.contextmanager
    def using(self, digest: str) -> Iterator[pathlib.Path]:
        """Hold a component within the block, so that it is not removed. Raises WeightsGone."""
        with self._locked(digest, fcntl.LOCK_SH, self._lock_timeout_s):
            found = self.path(digest)
            if found is None:
                raise WeightsGone(f"component {digest} is not on the volume {self.folder}: fetch it")
            yield found

    def remove(self, digest: str) -> int:
        """Remove a component, and what an interrupted fetch of it left; return the bytes that were freed.

        Raises ComponentInUse while a process holds or fetches it.
        """
        with self._locked(digest, fcntl.LOCK_EX, 0.0):
            freed = 0
            for folder in (self._ready / digest, self._partial / digest):
                if folder.is_dir():
                    freed += _bytes_in(folder)
                    self._put_away(folder)
            return freed

    def _put_away(self, folder: pathlib.Path) -> None:
        away = self._removed / uuid.uuid4().hex
        os.rename(folder, away)  # atomic: no process sees half of it
        shutil.rmtree(away, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove what a process that died was removing."""
        for path in self._removed.iterdir():
            shutil.rmtree(path, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self, name: str, how: int, timeout_s: float) -> Iterator[None]:
        path = self._locks / (name if name == "volume" else _checked(name))
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            end_s = time.monotonic() + timeout_s
            while not try_lock(handle, how):
                if time.monotonic() >= end_s:
                    raise ComponentInUse(
                        f"{path} was locked by another process for {timeout_s:g} s: it fetches or reads the component; "
                        "try again later, or choose another"
                    )
                time.sleep(POLL_S)
            yield
        finally:
            os.close(handle)


def _checked(digest: str) -> str:
    if not is_sha256(digest):
        raise PochadeError(f"digest of a component must be 64 hex digits: got {digest!r:.100}; correct the catalog")
    return digest


def _bytes_in(folder: pathlib.Path) -> int:
    """Bytes of the files in a folder, those that vanish meanwhile left out."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(path, name)).st_size
    return total


def _is_whole(path: pathlib.Path, file: ComponentFile) -> bool:
    """Whether an earlier attempt left the file: it has its name only once its sha-256 was compared and it was
    synced.
    """
    with contextlib.suppress(OSError):
        return path.stat().st_size == file.bytes
    return False
