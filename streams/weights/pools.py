"""Buffers in a few sizes that are used again and again: what is read comes into the smallest that holds it.

Source: MLoRA 6.2.2, Eq. 9: the pool with the least size among those at least as large as what is asked for; the sizes
follow from what was asked for before (Eqs. 7 and 8, decided in `planner/components`). What finds no pool, or a pool
whose bytes are all lent, gets memory of its own, which is not pinned, and is counted.
"""

import mmap
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType

from planner.components.pools import best_pool, pool_sizes
from streams import metrics
from streams.weights.memory import PAGE, HostMemory, Memory


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """Counts of pools since they were opened."""

    from_pool: int  # leases
    too_large: int  # leases of own memory: no pool is large enough
    exhausted: int  # leases of own memory: the pools' bytes were all lent
    pool_bytes: int  # allocated now, lent or waiting
    lent_bytes: int  # lent now, of pools' and own memory


class Lease:
    """A buffer in use until `release`. `view` has the requested number of bytes."""

    def __init__(self, pools: "BufferPools", memory: mmap.mmap, size: int, pool: int | None) -> None:
        self._pools, self.memory, self.size, self.pool = pools, memory, size, pool
        self._is_released = False
        self._open_views()

    def _open_views(self) -> None:
        self.whole = memoryview(self.memory)  # whole pages: direct I/O writes past the end of `view`
        self.view = self.whole[: self.size]

    def release(self) -> None:
        """Give the buffer back; a second time changes nothing.

        Raises BufferError while an array points into it, as its values would change under it.
        """
        if self._is_released:
            return
        try:
            self.view.release()
            self.whole.release()
            self.memory.resize(len(self.memory))  # moves nothing, and raises while anything else points here
        except BufferError:
            self._open_views()
            raise
        self._is_released = True
        self._pools._give_back(self)

    def recycle(self) -> None:
        """Give back a buffer that nothing but the tracebacks of an error may still point into."""
        if not self._is_released:
            self._is_released = True
            self._pools._give_back(self)

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()


class BufferPools:
    """Pools of buffers; any thread may ask. Until a size is known every lease has memory of its own."""

    def __init__(self, sizes: Sequence[int], budget_bytes: int, memory: Memory | None = None) -> None:
        """`sizes`: of the pools in bytes, rounded up to pages; `budget_bytes`: of all pools' buffers together."""
        self.sizes = tuple(sorted({in_pages(size) for size in sizes}))
        self._budget = budget_bytes
        self._memory, self._own = memory or HostMemory(), HostMemory()
        self._idle: dict[int, list[mmap.mmap]] = {size: [] for size in self.sizes}
        self._expected: dict[int, float] = dict.fromkeys(self.sizes, 1.0)  # bytes -> files of that size
        self._lock = threading.Lock()
        self._pool_bytes = self._lent = self._from_pool = self._too_large = self._exhausted = 0

    def expect(self, sizes: Iterable[int]) -> None:
        """Have pools for files of these bytes, too, from now on (Eqs. 7 and 8). Each file is to be named once."""
        with self._lock:
            for size in filter(None, sizes):
                self._expected[in_pages(size)] = self._expected.get(in_pages(size), 0.0) + 1.0
            self.sizes = pool_sizes(self._expected)
            for size in self.sizes:
                self._idle.setdefault(size, [])

    def lease(self, size: int) -> Lease:
        """Return a buffer of `size` bytes. Raises MemoryError, CannotPin."""
        wanted = in_pages(size)
        pool = best_pool(self.sizes, wanted)
        with self._lock:
            memory = self._take(pool) if pool else None
            if memory is not None:
                self._from_pool += 1
            elif pool:
                self._exhausted += 1
            else:
                self._too_large += 1
            if memory is None and self.sizes:
                metrics.FALLBACKS.labels("weights", "unpooled").inc()
            if memory is None:
                pool, memory = None, self._own.allocate(wanted)
            self._lent += len(memory)
        return Lease(self, memory, size, pool)

    def _take(self, pool: int) -> mmap.mmap | None:
        if self._idle[pool]:
            return self._idle[pool].pop()
        self._shrink_to(self._budget - pool, besides=pool)
        if self._pool_bytes + pool > self._budget:
            return None
        memory = self._memory.allocate(pool)
        self._pool_bytes += pool
        return memory

    def _shrink_to(self, limit: int, besides: int) -> None:
        """Free waiting buffers of other pools, the largest first, until the pools' bytes are within a limit."""
        for size in sorted(self._idle, reverse=True):
            while size != besides and self._pool_bytes > limit and self._idle[size]:
                self._memory.free(self._idle[size].pop())
                self._pool_bytes -= size

    def _give_back(self, lease: Lease) -> None:
        with self._lock:
            self._lent -= len(lease.memory)
            if lease.pool is not None:  # own memory goes with the last reference to it
                self._idle[lease.pool].append(lease.memory)

    def counts(self) -> PoolCounts:
        """Return the counts as of now."""
        with self._lock:
            return PoolCounts(self._from_pool, self._too_large, self._exhausted, self._pool_bytes, self._lent)

    def close(self) -> None:
        """Free unused buffers; lent ones stay with their users."""
        with self._lock:
            self._shrink_to(0, besides=-1)


def in_pages(size: int) -> int:
    """Return a size rounded up to whole pages, at least one."""
    return max(1, -(-size // PAGE)) * PAGE
