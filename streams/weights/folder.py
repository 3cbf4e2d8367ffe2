"""`Remote` in a folder: what ships with the product, or a shared file system."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

from streams.store.port import StoreUnavailable
from streams.weights.errors import WeightsGone
from streams.weights.remote import RemoteFile


class FolderRemote:
    """A component's files in a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder.resolve()

    @property
    def url(self) -> str:
        return str(self._folder)

    def stat(self, path: str) -> RemoteFile:
        with self._available(path):
            return _seen(os.stat(self._folder / path))

    def read_into(self, path: str, version: str, offset: int, buffer: memoryview) -> int:
        with self._available(path):
            handle = os.open(self._folder / path, os.O_RDONLY)
            try:
                if _seen(os.fstat(handle)).version != version:
                    raise WeightsGone(f"{self._folder / path} changed while it was read: fetch it again")
                came = os.preadv(handle, [buffer], offset)
            finally:
                os.close(handle)
        if not came:
            raise StoreUnavailable(f"cannot read {self._folder / path}: it ended at byte {offset}; was it cut?")
        return came

    def put(self, path: str, file: pathlib.Path) -> None:
        target = self._folder / path
        with self._available(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f".{target.name}.draft")
            shutil.copyfile(file, draft)
            os.replace(draft, target)

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


def _seen(found: os.stat_result) -> RemoteFile:
    return RemoteFile(found.st_size, f"{found.st_mtime_ns}-{found.st_ino}-{found.st_size}")
