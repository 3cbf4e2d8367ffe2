"""A set of digests: what was added is in it, and it is small."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from schemas.ids import DIGEST_BYTES, Digests, RecentIds, digest_of

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


def test_ids_of_half_a_window_at_least_are_remembered_and_of_all_of_it_at_most() -> None:
    ids = RecentIds(window_ms=1000, most=1_000_000)
    for at_ms in range(0, 5000, 10):
        ids.add(f"r-{at_ms}", 10_000 + at_ms)
        known = [each for each in range(0, 5000, 10) if f"r-{each}" in ids]
        assert set(range(max(0, at_ms - 500), at_ms + 1, 10)) <= set(known)
        assert min(known) >= at_ms - 1020


def test_a_recent_id_takes_few_bytes() -> None:
    tracemalloc.start()
    ids = RecentIds(window_ms=3_600_000, most=500_000)
    for number in range(20_000):
        ids.add(f"a-request-of-{number:012d}", number)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / 20_000 < 30
