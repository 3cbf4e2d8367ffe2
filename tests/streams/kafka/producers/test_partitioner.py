"""The partition of a key: as others reckon it, and as the producer chooses it (`tests/integration`)."""

from hypothesis import given
from hypothesis import strategies as st

from streams.kafka.producers.partitioner import _murmur2, partition_of


@given(st.binary(max_size=100))
def test_keys_are_hashed_as_another_client_hashes_them(key: bytes) -> None:
    from aiokafka.partitioner import murmur2

    assert _murmur2(key) == murmur2(key) & 0xFFFFFFFF


@given(st.binary(max_size=20), st.integers(1, 50))
def test_a_partition_is_one_of_those_there_are(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions


def test_known_partitions_stay() -> None:
    assert [partition_of(b"r-%d" % n, 4) for n in range(8)] == [3, 3, 3, 0, 1, 3, 0, 0]
