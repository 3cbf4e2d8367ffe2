"""One component in host memory: its weight files as they lie in buffers, and a folder with its other files."""

import contextlib
import pathlib
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from streams.weights.direct import Reading
from streams.weights.tensors import as_torch, metadata

if TYPE_CHECKING:  # seconds of import that who only counts bytes need not wait for
    import torch


class HostWeights:
    """A component in host memory, for the tier and for who builds from it: the last one to release it frees it.

    Who makes one holds it.
    """

    def __init__(
        self, id_: str, folder: pathlib.Path, files: Mapping[str, Reading], *,
        has_all_files: bool, close: Callable[[], object] = lambda: None, digest: str = "",
    ) -> None:  # fmt: skip
        """`folder`: has the files that are not in `files`. `has_all_files`: it has those, too. `close`: in the end.

        `digest`: sha-256 of its weight files.
        """
        self.id, self.digest = id_, digest
        self.folder = folder
        self._files = files
        self._has_all_files = has_all_files
        self._close = close
        self._users, self._lock = 1, threading.Lock()
        self._has_failed = False

    @property
    def bytes(self) -> int:
        """Bytes of memory that the weights fill."""
        return sum(reading.lease.size for reading in self._files.values())

    @property
    def paths(self) -> tuple[str, ...]:
        """The weight files, by path within the folder."""
        return tuple(self._files)

    def tensors(self, path: str) -> "dict[str, torch.Tensor]":
        """Return a file's tensors by name. They point into the buffer: copy what outlives the release.

        Raises NotSafetensors.
        """
        return as_torch(self._files[path].lease.view, f"{self.id}: {path}")

    def metadata(self, path: str) -> Mapping[str, str]:
        """Return what a file's header says beside its tensors. Raises NotSafetensors."""
        return metadata(self._files[path].lease.view, f"{self.id}: {path}")

    @contextlib.contextmanager
    def whole_folder(self) -> Iterator[pathlib.Path]:
        """A folder with all files of the component, for a library that reads files alone."""
        if self._has_all_files:
            yield self.folder
            return
        with tempfile.TemporaryDirectory(dir=self.folder.parent) as made:
            folder = pathlib.Path(made)
            for other in self.folder.rglob("*"):
                if other.is_file():
                    _write(folder / other.relative_to(self.folder), other.read_bytes())
            for path, reading in self._files.items():
                _write(folder / path, reading.lease.view)
            yield folder

    def on_failure(self) -> None:
        """Take note that building failed: until its error is gone, its traceback may point into the buffers."""
        self._has_failed = True

    def hold(self) -> "HostWeights":
        """Count one more user, and return this."""
        with self._lock:
            self._users += 1
        return self

    def release(self) -> None:
        """Count one user less; after the last one its buffers are free for others.

        Raises BufferError while a tensor points into one.
        """
        with self._lock:
            self._users -= 1
            is_last = self._users == 0
        if is_last:
            try:
                for reading in self._files.values():
                    if self._has_failed:
                        reading.lease.recycle()
                    else:
                        reading.lease.release()
            finally:
                self._close()


def _write(path: pathlib.Path, data: bytes | memoryview) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
