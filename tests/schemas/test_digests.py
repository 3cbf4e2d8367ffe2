"""A set of digests: what was added is in it, and it is small."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from schemas.ids import DIGEST_BYTES, Digests, digest_of

FEW = st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES) | st.lists(
    st.sampled_from([b"\0\0", b"\0\1"]), min_size=6, max_size=6
).map(b"".join)  # many of which are in one shard, and overlap


@given(st.lists(FEW, max_size=40), st.lists(FEW, max_size=40))
def test_digests_are_a_set(added: list[bytes], others: list[bytes]) -> None:
    digests = Digests()
    for each in added:
        digests.add(each)
    assert len(digests) == len(set(added))
    assert all(each in digests for each in added)
    assert not any(each in digests for each in set(others) - set(added))
    packed = digests.packed()
    assert sorted(packed[at : at + DIGEST_BYTES] for at in range(0, len(packed), DIGEST_BYTES)) == sorted(set(added))


def test_a_digest_takes_few_bytes() -> None:
    tracemalloc.start()
    digests = Digests()
    for number in range(20_000):
        digests.add(digest_of(b"%d" % number))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / 20_000 < 24
