"""`Remote` in a folder: what ships with the product, or a shared file system."""

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Final

from schemas.errors import PochadeError
from streams.store.port import StoreUnavailable
from streams.weights.errors import WeightsGone
from streams.weights.remotes.remote import RemoteFile

BLOCK: Final = 4 << 20  # bytes copied at a time


class FolderRemote:
    """A component's files in a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder.resolve()

    @property
    def url(self) -> str:
        return str(self._folder)

    def stat(self, path: str) -> RemoteFile:
        with self._available(path):
            return _remote_file(os.stat(self._folder / path))

    def read_into(self, path: str, version: str, offset: int, buffer: memoryview) -> int:
        with self._available(path):
            handle = os.open(self._folder / path, os.O_RDONLY)
            try:
                if _remote_file(os.fstat(handle)).version != version:
                    raise WeightsGone(f"{self._folder / path} changed while it was read: fetch it again")
                came = os.preadv(handle, [buffer], offset)
            finally:
                os.close(handle)
        if not came:
            raise StoreUnavailable(f"cannot read {self._folder / path}: it ended at byte {offset}; was it cut?")
        return came

    def put(self, path: str, file: pathlib.Path, on_bytes: Callable[[int], None] = lambda _: None) -> None:
        target = self._folder / path
        draft = target.with_name(f".{target.name}.draft")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with file.open("rb") as source, draft.open("wb") as copied:
                while block := source.read(BLOCK):
                    copied.write(block)
                    on_bytes(len(block))
            os.replace(draft, target)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise PochadeError(
                f"cannot write {target}: {error.strerror}; check the rights and the disk's room, then publish again"
            ) from error

    @contextlib.contextmanager
    def _available(self, path: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise WeightsGone(
                f"{self._folder / path} is not there: publish the component, or correct its folder"
            ) from None
        except OSError as error:
            raise StoreUnavailable(f"cannot read {self._folder / path}: {error.strerror}; is it mounted?") from error


def _remote_file(found: os.stat_result) -> RemoteFile:
    return RemoteFile(found.st_size, f"{found.st_mtime_ns}-{found.st_ino}-{found.st_size}")
