"""Temporary folders of one process, which are removed by the next one if it was killed.

    TMP/pochade-component-XXXX/    locked by flock for as long as its process lives
        YYYY/                      one use

An unlocked folder belongs to a killed process, unless it is younger than NEW_S.
"""

import fcntl
import os
import pathlib
import shutil
import tempfile
import time
import weakref
from typing import Final

PREFIX: Final = "pochade-component-"
NEW_S: Final = 60.0  # age up to which a folder may not be locked yet


class Scratch:
    """Makes temporary folders, which are removed with this object."""

    def __init__(self, where: pathlib.Path | None = None) -> None:
        """`where`: None for the system's temporary folder. Removes what killed processes left there."""
        where = where or pathlib.Path(tempfile.gettempdir())
        sweep(where, time.time() - NEW_S)
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX, dir=where))
        handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._finalizer = weakref.finalize(self, _remove, self.path, handle)

    def folder(self) -> "tempfile.TemporaryDirectory[str]":
        """Return a new folder, which its owner removes by `cleanup`."""
        return tempfile.TemporaryDirectory(dir=self.path)


def _remove(path: pathlib.Path, handle: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(handle)


def sweep(where: pathlib.Path, before_s: float) -> int:
    """Remove folders that killed processes left before a time (epoch seconds); return their number."""
    removed = 0
    for path in where.glob(f"{PREFIX}*"):
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # gone, or another user's
            continue
        try:
            if os.fstat(handle).st_mtime < before_s and os.fstat(handle).st_uid == os.getuid():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
                removed += 1
        except BlockingIOError:  # its process lives
            pass
        finally:
            os.close(handle)
    return removed
