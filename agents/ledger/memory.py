"""Memory that was needed for a while, given back to the system."""

import contextlib
import ctypes


def give_back_memory() -> None:
    """Of what the C library keeps for later: 120 MB after 69 million ended ids were sorted into place (measured)."""
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc has no such call
        ctypes.CDLL(None).malloc_trim(0)
