"""The requests of a run, by number: a bit for each, so that a million of them take 125 kB."""

import base64
import zlib
from collections.abc import Iterator


class Numbers:
    """A set of numbers from 0 on, a bit each; it grows as numbers come."""

    def __init__(self, packed: str = "") -> None:
        """`packed`: what `packed` returned; "" for none."""
        self._bits = bytearray(zlib.decompress(base64.b64decode(packed))) if packed else bytearray()
        self._count = sum(map(int.bit_count, self._bits))

    def add(self, number: int) -> bool:
        """Add a number; return whether it is new."""
        at, bit = number >> 3, 1 << (number & 7)
        if at >= len(self._bits):
            self._bits.extend(bytes(max(at + 1 - len(self._bits), len(self._bits))))
        if self._bits[at] & bit:
            return False
        self._bits[at] |= bit
        self._count += 1
        return True

    def __contains__(self, number: int) -> bool:
        at = number >> 3
        return at < len(self._bits) and bool(self._bits[at] & (1 << (number & 7)))

    def __len__(self) -> int:
        return self._count

    def but(self, other: "Numbers") -> Iterator[int]:
        """Yield the numbers that `other` lacks, in their order."""
        theirs = other._bits
        for at, mine in enumerate(self._bits):
            if left := mine & ~(theirs[at] if at < len(theirs) else 0):
                yield from (8 * at + bit for bit in range(8) if left >> bit & 1)

    def packed(self) -> str:
        """Return the bits as text."""
        return base64.b64encode(zlib.compress(self._bits, 1)).decode()
