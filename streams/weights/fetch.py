"""Fetches one file from a remote into a draft: several ranges at once, hashed in their order while others still come.

    ranges   take the next part and a buffer, read the part from the remote (or from the draft, if an earlier attempt
    left it) writers  write it to the draft, by direct I/O where the volume takes it
    hasher   hashes the parts in their order, as soon as all before are there
    a buffer goes back when its part is written and hashed

Parts are begun in their order and a range waits for a buffer before it takes a part: the part that the hasher waits for
always has one.
"""

import hashlib
import queue
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

import tenacity

from streams.store.port import StoreUnavailable
from streams.weights.draft import Draft
from streams.weights.errors import DamagedWeights
from streams.weights.manifest import ComponentFile
from streams.weights.pools import BufferPools, Lease
from streams.weights.remotes.remote import Remote

Answer = TypeVar("Answer")
RANGES: Final = 8
WRITERS: Final = 2
MAX_TRIES: Final = 6  # of a part in a row that bring less than PROGRESS; waits of .1 to 3.2 s, 6 s in all
FIRST_BACKOFF_S: Final = 0.1
PROGRESS: Final = 64 << 10  # bytes after which tries are counted anew


@dataclass(slots=True)
class Transfer:
    """The counts of a fetch."""

    fetched_bytes: int = 0
    kept_bytes: int = 0  # found in the draft of an earlier attempt
    retries: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, fetched: int = 0, kept: int = 0, retries: int = 0) -> None:
        """Count; any thread may."""
        with self.lock:
            self.fetched_bytes += fetched
            self.kept_bytes += kept
            self.retries += retries


class Stopped(Exception):
    """Another part failed, or the caller was interrupted."""


def fetch_file(
    remote: Remote, file: ComponentFile, draft: Draft, pools: BufferPools, transfer: Transfer, ranges: int = RANGES,
    wait: Callable[[float], None] | None = None,
) -> None:  # fmt: skip
    """Fill a draft with a file's bytes and compare their sha-256. `wait`: sleeps for seconds between tries; None:
    really.

    If the sha-256 differs the whole file is fetched a second time before the remote is blamed: parts of an earlier
    attempt may be damaged on the disk, or a bit may have flipped on the way.

    Raises:
        DamagedWeights: the remote's file has another size or sha-256; the draft keeps nothing of it.
        StoreUnavailable: the remote does not answer, after several tries; the parts that came stay in the draft.
        WeightsGone, VolumeFull, PochadeError, OSError: nothing that another try would mend.
    """
    version = _stat(remote, file, transfer, wait or time.sleep)
    for _ in range(2):
        digest = _Fetch(remote, file, version, draft, pools, transfer, ranges, wait).run()
        if digest == file.sha256:
            return
        draft.forget()
    raise DamagedWeights(
        f"{remote.url}/{file.path} has sha-256 {digest}, its component's list says {file.sha256}: it was altered; "
        "publish the component again"
    )


def _stat(remote: Remote, file: ComponentFile, transfer: Transfer, wait: Callable[[float], None]) -> str:
    """The version of the file, whose size was compared."""
    seen = retried(lambda: remote.stat(file.path), transfer, wait)
    if seen.bytes != file.bytes:
        raise DamagedWeights(
            f"{remote.url}/{file.path} has {seen.bytes} bytes, its component's list says {file.bytes}: it was cut or "
            "altered; publish the component again"
        )
    return seen.version


def retried(ask: Callable[[], Answer], transfer: Transfer, wait: Callable[[float], None] = time.sleep) -> Answer:
    """Return what a remote answers, within MAX_TRIES tries. Raises the last StoreUnavailable, anything else at once."""
    again = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(StoreUnavailable), stop=tenacity.stop_after_attempt(MAX_TRIES),
        wait=lambda state: backoff_s(state.attempt_number), sleep=wait,
        before_sleep=lambda _: transfer.add(retries=1), reraise=True,
    )  # fmt: skip
    return again(ask)


def backoff_s(tries: int) -> float:
    """Return the seconds to wait after this number of tries: doubling from 0.1 s, randomly up to a half shorter."""
    return FIRST_BACKOFF_S * 2.0 ** (tries - 1) * random.uniform(0.5, 1.0)


class _Fetch:
    """One attempt at a file."""

    def __init__(
        self, remote: Remote, file: ComponentFile, version: str, draft: Draft, pools: BufferPools, transfer: Transfer,
        ranges: int, wait: Callable[[float], None] | None,
    ) -> None:  # fmt: skip
        self._remote, self._file, self._version, self._draft = remote, file, version, draft
        self._transfer, self._pools = transfer, pools
        self._ranges = min(ranges, draft.count)
        self._next, self._order, self._lock = 0, threading.Lock(), threading.Lock()
        self._free: queue.SimpleQueue[Lease | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._wait: Callable[[float], object] = wait or self._stopping.wait
        self._failure: BaseException | None = None
        self._hash, self._waiting = hashlib.sha256(), dict[int, Lease]()
        self._hashed = 0  # parts, of the first ones; only the hasher's
        self._uses: dict[Lease, int] = {}  # a buffer -> writer and hasher that still read it

    def run(self) -> str:
        """Return the sha-256 of the file as it came."""
        leases = [
            self._pools.lease(self._draft.part_bytes) for _ in range(min(2 * self._ranges + 1, self._draft.count))
        ]
        try:
            for lease in leases:
                self._free.put(lease)
            with (
                ThreadPoolExecutor(1, "weights-hash") as self._hasher,
                ThreadPoolExecutor(WRITERS, "weights-write") as self._writers,
                ThreadPoolExecutor(max(1, self._ranges), "weights-range") as readers,
            ):
                try:
                    for reading in [readers.submit(self._guarded, self._read_parts) for _ in range(self._ranges)]:
                        reading.result()
                except BaseException as error:  # the caller's own interruption
                    self._fail(error)
                    raise
        finally:
            for lease in leases:
                lease.recycle()
        if self._failure is not None:
            raise self._failure
        assert self._hashed == self._draft.count, f"{self._hashed} of {self._draft.count} parts were hashed"
        return self._hash.hexdigest()

    def _guarded(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except Stopped:
            pass
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._failure = self._failure or error
        self._stopping.set()
        for _ in range(self._ranges):
            self._free.put(None)  # wakes those who wait for a buffer

    def _read_parts(self) -> None:
        while True:
            with self._order:
                lease = self._free.get() if self._next < self._draft.count else None
                index = self._next
                self._next += 1
            if lease is None or self._stopping.is_set():
                return
            size = self._draft.size_of(index)
            if is_kept := self._draft.read_existing(index, lease.whole):
                self._transfer.add(kept=size)
            else:
                self._read_remote(index * self._draft.part_bytes, lease.view[:size])
            self._uses[lease] = 1 if is_kept else 2
            if not is_kept:
                self._writers.submit(self._guarded, self._write, index, lease)
            self._hasher.submit(self._guarded, self._hash_part, index, lease)

    def _read_remote(self, start: int, buffer: memoryview) -> None:
        done = tries = gained = 0
        while done < len(buffer):
            if self._stopping.is_set():
                raise Stopped
            try:
                came = self._remote.read_into(self._file.path, self._version, start + done, buffer[done:])
            except StoreUnavailable:
                came = 0
                if tries + 1 >= MAX_TRIES:
                    raise
            done, gained = done + came, gained + came
            self._transfer.add(fetched=came)
            if done < len(buffer):
                tries, gained = (1, 0) if gained >= PROGRESS else (tries + 1, gained)
                if tries >= MAX_TRIES:
                    raise StoreUnavailable(
                        f"cannot read {self._remote.url}/{self._file.path}: {tries} connections in a row broke before "
                        f"they brought {PROGRESS} bytes, at byte {start + done}"
                    )
                self._transfer.add(retries=1)
                self._wait(backoff_s(tries))

    def _write(self, index: int, lease: Lease) -> None:
        self._draft.write(index, lease.whole)
        self._done_with(lease)

    def _hash_part(self, index: int, lease: Lease) -> None:
        self._waiting[index] = lease
        while (ready := self._waiting.pop(self._hashed, None)) is not None:
            self._hash.update(ready.view[: self._draft.size_of(self._hashed)])
            self._hashed += 1
            self._done_with(ready)

    def _done_with(self, lease: Lease) -> None:
        with self._lock:
            self._uses[lease] -= 1
            is_free = not self._uses[lease]
        if is_free:
            self._free.put(lease)
