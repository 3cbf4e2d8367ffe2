"""The partition that a key belongs to, as every producer of ours and Java's default choose it: murmur2.

librdkafka hashes so only when it is configured to (`partitioner=murmur2_random`), and does not return the partition.
"""

import struct

SEED, M, R = 0x9747B28C, 0x5BD1E995, 24
MASK = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of a key, in [0, partitions)."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(key: bytes) -> int:
    """MurmurHash 2, 32 bits, as in Kafka's `Utils.murmur2`."""
    words, rest = divmod(len(key), 4)
    h = SEED ^ len(key)
    for word in struct.unpack_from(f"<{words}I", key):
        k = word * M & MASK
        h = h * M & MASK ^ (k ^ k >> R) * M & MASK
    if rest:
        h = (h ^ int.from_bytes(key[-rest:], "little")) * M & MASK
    h = (h ^ h >> 13) * M & MASK
    return h ^ h >> 15
