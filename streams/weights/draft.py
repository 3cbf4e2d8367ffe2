"""A file that is being fetched: its parts at their places, and a journal of those that are there.

The draft has the file's full size from the start, so that a full disk shows before anything is fetched. The journal is
text: a first line that says what the parts are of, then a line `INDEX CRC32` for each part, written after its bytes.
After an interruption, a loss of power too, a part counts only if its bytes have the CRC-32 that the journal states;
the sha-256 of the whole file is compared in any case.
"""

import contextlib
import errno
import os
import pathlib
import threading
import zlib
from collections.abc import Iterator
from typing import Final

from streams import metrics
from streams.weights.direct import open_direct
from streams.weights.errors import VolumeFull
from streams.weights.manifest import ComponentFile
from streams.weights.memory import PAGE
from streams.weights.pools import in_pages

MIN_PART: Final = 1 << 20
MAX_PART: Final = 16 << 20
PARTS_EACH: Final = 2  # parts per range, at least, for files that are large enough: the last ones end at about one time
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def part_size(file_bytes: int, ranges: int) -> int:
    """Return the size of a file's parts in bytes, whole MiB: at least two parts for each range, of 1 to 16 MiB."""
    wanted = -(-file_bytes // (ranges * PARTS_EACH))
    return min(MAX_PART, max(MIN_PART, -(-wanted // MIN_PART) * MIN_PART))


class Draft:
    """The draft of one file in a folder of drafts; parts may be written from any thread."""

    def __init__(self, path: pathlib.Path, file: ComponentFile, part_bytes: int) -> None:
        """Open or make a draft. Raises VolumeFull, OSError."""
        self.path, self._file = path, file
        self._journal_path = path.with_name(path.name + ".parts")
        self.part_bytes, self._kept = self._read_journal(part_bytes)
        self.count = -(-file.bytes // self.part_bytes)
        self._lock = threading.Lock()
        with full_disk(path, file.bytes):
            self._handle, self._is_direct = open_direct(path, os.O_RDWR | os.O_CREAT)
            try:
                if os.fstat(self._handle).st_size != file.bytes:
                    self._kept.clear()
                    os.ftruncate(self._handle, 0)
                    if file.bytes:
                        os.posix_fallocate(self._handle, 0, file.bytes)
                self._journal = self._begin_journal()
            except BaseException:
                os.close(self._handle)
                raise

    def _read_journal(self, part_bytes: int) -> tuple[int, dict[int, int]]:
        """The size of parts, and the CRC-32 of each part that is there."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            first, *lines = self._journal_path.read_text(errors="replace").split("\n")[:-1]  # no line without its end
            sha256, size, kept_bytes = first.split(" ")
            if (sha256, int(size)) == (self._file.sha256, self._file.bytes) and int(kept_bytes) >= PAGE:
                return int(kept_bytes), {int(line.split(" ")[0]): int(line.split(" ")[1]) for line in lines}
        return part_bytes, {}

    def _begin_journal(self) -> int:
        """Write what is known anew, as the last writer may have been stopped within a line."""
        lines = [f"{self._file.sha256} {self._file.bytes} {self.part_bytes}"]
        lines += [f"{index} {crc}" for index, crc in self._kept.items()]
        handle = os.open(self._journal_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        os.write(handle, "".join(f"{line}\n" for line in lines).encode())
        return handle

    def size_of(self, index: int) -> int:
        """Return the size of a part in bytes; the last one's may be less than the others'."""
        return min(self.part_bytes, self._file.bytes - index * self.part_bytes)

    def read_existing(self, index: int, buffer: memoryview) -> bool:
        """Read a part that an earlier attempt wrote into a buffer of whole pages; False: it is not there, or not
        whole.
        """
        crc = self._kept.get(index)
        if crc is None:
            return False
        size, done = self.size_of(index), 0
        while done < size:
            came = os.preadv(self._handle, [buffer[done : in_pages(size)]], index * self.part_bytes + done)
            if not came:
                return False
            done += came
        return zlib.crc32(buffer[:size]) == crc

    def write(self, index: int, buffer: memoryview) -> None:
        """Write a part from a buffer of whole pages, then its line of the journal. Raises VolumeFull, OSError."""
        size, done = self.size_of(index), 0
        crc = zlib.crc32(buffer[:size])
        whole = in_pages(size) if self._is_direct else size
        with full_disk(self.path, size):
            while done < whole:
                try:
                    done += os.pwritev(self._handle, [buffer[done:whole]], index * self.part_bytes + done)
                except OSError as error:
                    if error.errno != errno.EINVAL or not self._is_direct:
                        raise
                    self._is_direct, whole = False, size  # it took direct I/O when the file was opened
                    self._reopen()
            with self._lock:
                os.write(self._journal, f"{index} {crc}\n".encode())

    def _reopen(self) -> None:
        metrics.FALLBACKS.labels("weights", "buffered").inc()
        with self._lock:
            plain = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(plain, self._handle, inheritable=False)
            os.close(plain)

    def finish(self, target: pathlib.Path) -> None:
        """Give the file, whose bytes were compared, its name, once they are on the disk.

        The name itself is on the disk once its folder is synced. Raises VolumeFull, OSError."""
        with full_disk(self.path, self._file.bytes):
            os.ftruncate(self._handle, self._file.bytes)  # direct I/O wrote whole pages
            os.fsync(self._handle)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.path, target)
        self._journal_path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Keep nothing of it: its bytes are not the file's."""
        self._kept.clear()
        os.ftruncate(self._journal, 0)
        os.lseek(self._journal, 0, os.SEEK_SET)
        os.write(self._journal, f"{self._file.sha256} {self._file.bytes} {self.part_bytes}\n".encode())

    def close(self) -> None:
        """Close the files; what was written stays for the next attempt."""
        os.close(self._handle)
        os.close(self._journal)


@contextlib.contextmanager
def full_disk(path: pathlib.Path, size: int) -> Iterator[None]:
    """Raise VolumeFull where the system says that a disk, a quota or a limit of sizes leaves no room."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        text = f"no room for {size} bytes of {path}: {error.strerror}; remove components or free space"
        raise VolumeFull(text, size) from error
