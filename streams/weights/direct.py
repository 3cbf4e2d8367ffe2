"""Reads a local file into a buffer past the page cache (O_DIRECT) and hashes it meanwhile. Source: MLoRA 6.2.1, Eq. 6.

Blocks of 2 MB take a sixteenth of the calls that blocks of 128 KB do. A file system that refuses direct I/O is read as
usual, which is counted. Two threads read by turns, so that the disk has the next block's order before it ends this
one's; the thread that calls hashes what is there up to the first gap.
"""

import hashlib
import os
import pathlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from schemas.errors import PochadeError
from streams import metrics
from streams.weights.errors import DamagedWeights
from streams.weights.pools import BufferPools, Lease

BLOCK: Final = 2 << 20
READERS: Final = 2  # blocks that the disk has orders for
_DIRECT: Final = getattr(os, "O_DIRECT", 0)


class CannotRead(PochadeError):
    """A local file that the system does not let us read."""


class Reading(NamedTuple):
    """A file in memory."""

    lease: Lease  # its caller's, to release
    reads: int  # calls of the system
    is_direct: bool  # False: the file system refused it


def read_file(path: pathlib.Path, size: int, sha256: str, pools: BufferPools) -> Reading:
    """Read a file of `size` bytes into a leased buffer.

    Raises:
        DamagedWeights: another size, or another sha-256.
        CannotRead: not there, no right, or an error of the disk.
    """
    reading, digest = read_hashed(path, size, pools)
    if digest != sha256:
        reading.lease.recycle()
        raise DamagedWeights(f"{path} has sha-256 {digest}, its component's list says {sha256}: it was altered")
    return reading


def read_hashed(path: pathlib.Path, size: int, pools: BufferPools) -> tuple[Reading, str]:
    """Read a file of `size` bytes into a leased buffer; return it with its sha-256, which the caller compares.

    Raises DamagedWeights for another size, CannotRead as `read_file`.
    """
    lease = pools.lease(size)
    try:
        handle, is_direct = open_direct(path, os.O_RDONLY)
        try:
            reads, digest = _read(handle, lease, size, path)
        finally:
            os.close(handle)
    except OSError as error:
        lease.recycle()
        raise CannotRead(f"cannot read {path}: {error.strerror}") from error
    except BaseException:
        lease.recycle()
        raise
    return Reading(lease, reads, is_direct), digest


def open_direct(path: pathlib.Path, flags: int, mode: int = 0o644) -> tuple[int, bool]:
    """Open a file for direct I/O if its file system takes it; the handle, and whether it does. Raises OSError."""
    if _DIRECT:
        try:
            return os.open(path, flags | _DIRECT | os.O_CLOEXEC, mode), True
        except OSError as error:
            if error.errno != 22:  # EINVAL: refused
                raise
    metrics.FALLBACKS.labels("weights", "buffered").inc()
    return os.open(path, flags | os.O_CLOEXEC, mode), False


def _read(handle: int, lease: Lease, size: int, path: pathlib.Path) -> tuple[int, str]:
    """Number of reads, and the sha-256 of what was read."""
    seen = os.fstat(handle).st_size
    if seen != size:
        raise DamagedWeights(f"{path} has {seen} bytes, its component's list says {size}: it was cut or altered")
    offsets = range(0, size, BLOCK)
    stopping, found = threading.Event(), hashlib.sha256()

    def fill(offset: int) -> None:
        if not stopping.is_set():
            _fill(handle, lease.whole[offset : offset + BLOCK], offset, min(BLOCK, size - offset), path)

    with ThreadPoolExecutor(READERS, "weights-read") as readers:
        blocks: list[Future[None]] = [readers.submit(fill, offset) for offset in offsets]
        try:
            for offset, block in zip(offsets, blocks, strict=True):
                block.result()
                found.update(lease.view[offset : offset + BLOCK])
        except BaseException:
            stopping.set()
            raise
    return len(blocks), found.hexdigest()


def _fill(handle: int, block: memoryview, offset: int, wanted: int, path: pathlib.Path) -> None:
    """Fill a block whose first `wanted` bytes are the file's."""
    done = 0
    while done < wanted:
        came = os.preadv(handle, [block[done:]], offset + done)
        if not came:
            raise DamagedWeights(f"{path} ended at byte {offset + done} while it was read: it was cut")
        done += came
