"""Memory that weights are read into: aligned for direct I/O, and pinned where a device copies from it.

Source: MLoRA 6.2.2: memory that is not pinned is copied twice on its way to a device, and pinning is slow, so that
pinned memory is taken once and used again (`pools.py`).
"""

import ctypes
import mmap
from collections.abc import Callable
from typing import Any, Final, Protocol

from schemas.errors import PochadeError

PAGE: Final = mmap.PAGESIZE
HUGE: Final = 2 << 20  # from this size on huge pages are asked for: 512 times fewer page faults


class CannotPin(PochadeError):
    """Memory that the device's driver does not pin."""


class Memory(Protocol):
    """Allocates whole pages; any thread may ask."""

    @property
    def is_pinned(self) -> bool:
        """Whether a device copies from it without a copy in between."""

    def allocate(self, size: int) -> mmap.mmap:
        """Return zeroed memory of this many bytes, a whole number of pages. Raises CannotPin, MemoryError."""

    def free(self, memory: mmap.mmap) -> None:
        """Give memory back that `allocate` returned. Raises BufferError while something points into it."""


class HostMemory:
    """Pages of the process, not pinned."""

    is_pinned = False

    def allocate(self, size: int) -> mmap.mmap:
        assert size > 0 == size % PAGE, f"{size} bytes are no whole pages of {PAGE}"
        try:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"no memory for {size} bytes of weights: {error.strerror}") from error
        if size >= HUGE:
            memory.madvise(mmap.MADV_HUGEPAGE)
        return memory

    def free(self, memory: mmap.mmap) -> None:
        memory.close()


class PinnedMemory:
    """Pages of the process that a device's driver has registered."""

    is_pinned = True

    def __init__(self, register: Callable[[int, int], int], unregister: Callable[[int], int]) -> None:
        """`register`: takes address and bytes; `unregister`: takes the address; both return 0, or a code of an
        error.
        """
        self._register, self._unregister, self._host = register, unregister, HostMemory()

    def allocate(self, size: int) -> mmap.mmap:
        memory = self._host.allocate(size)
        if code := self._register(address_of(memory), size):
            memory.close()
            raise CannotPin(f"cannot pin {size} bytes of weights: error {code} of the driver; lower the pools' bytes")
        return memory

    def free(self, memory: mmap.mmap) -> None:
        address = address_of(memory)
        if code := self._unregister(address):
            raise CannotPin(f"cannot unpin weights at {address:#x}: error {code} of the driver")
        memory.close()


def cuda_memory(device: str = "cuda") -> PinnedMemory:
    """Return memory that CUDA pins for a device, as torch finds it. Raises CannotPin where there is no CUDA device.

    Any thread may allocate: each call is made on that device, else CUDA would begin to use the first one.
    """
    import torch

    if not torch.cuda.is_available():
        raise CannotPin("memory is pinned only for a CUDA device, and torch finds none")
    cuda: Any = torch.cuda
    runtime = cuda.cudart()

    def register(address: int, size: int) -> int:
        with torch.cuda.device(device):
            return int(runtime.cudaHostRegister(address, size, 0))

    def unregister(address: int) -> int:
        with torch.cuda.device(device):
            return int(runtime.cudaHostUnregister(address))

    return PinnedMemory(register, unregister)


def address_of(memory: mmap.mmap) -> int:
    """Return where memory begins."""
    view = ctypes.c_char.from_buffer(memory)
    try:
        return ctypes.addressof(view)
    finally:
        del view  # it would keep the memory from being closed
