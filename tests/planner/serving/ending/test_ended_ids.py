"""Ended ids: what was added is known until the window has left it, however it was sealed, packed and merged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.ending import ended_ids
from planner.serving.ending.ended_ids import EndedIds
from planner.serving.ending.ended_segments import segment_of
from schemas.ids import DIGEST_BYTES, digest_of

NUMBERS = st.integers(0, 60)
STEPS = st.lists(
    st.tuples(st.just("add"), st.lists(NUMBERS, max_size=6))
    | st.tuples(st.just("seal"), st.just([]))
    | st.tuples(st.just("pack"), st.lists(NUMBERS, max_size=6))
    | st.tuples(st.just("forget"), st.just([])),
    max_size=40,
)


@pytest.fixture(autouse=True, scope="module")
def small_segments() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ended_ids, "MERGED", 16)
        patch.setattr(ended_ids, "MERGED_AT", 3)
        patch.setattr(ended_ids, "SPAN_MS", 10)
        yield patch


DIGESTS = [digest_of(b"%d" % (number // 3))[:8] + b"%04d" % number for number in range(61)]  # 3 have 64 bits in common


@given(STEPS)
def test_whatever_was_added_within_the_window_is_known_and_nothing_that_never_was(
    steps: list[tuple[str, list[int]]],
) -> None:
    ended, added = EndedIds(), dict[int, int]()
    for at_ms, (step, numbers) in enumerate(steps):
        if step == "add":
            ended.add([DIGESTS[number] for number in numbers], at_ms)
        elif step == "seal":
            ended.seal()
        elif step == "pack":
            ended.add_segment(segment_of(b"".join(DIGESTS[number] for number in numbers), at_ms, at_ms))
        else:
            ended.forget(at_ms - 20)
        if step in ("add", "pack"):
            added |= dict.fromkeys(numbers, at_ms)
        found = ended.known(DIGESTS)
        known = {number for number, digest in enumerate(DIGESTS) if digest in found}
        assert {number for number, when in added.items() if when >= at_ms - 20} <= known <= added.keys()


def test_a_sealed_segment_reads_back_as_it_was_packed() -> None:
    ended = EndedIds()
    ended.add([digest_of(b"%d" % n) for n in range(1000)], 5)
    ended.add([digest_of(b"x")], 9)
    sealed = ended.seal()
    again = segment_of(sealed.packed(), sealed.oldest_ms, sealed.newest_ms)
    assert (len(again), again.oldest_ms, again.newest_ms, len(sealed.packed())) == (1001, 5, 9, 1001 * DIGEST_BYTES)
    assert (again.high == sealed.high).all()
    assert (again.low == sealed.low).all()


def test_a_part_of_a_digest_is_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        segment_of(b"x" * 25, 0, 0)


def test_a_segment_is_dropped_whole_when_its_newest_has_left_the_window() -> None:
    ended = EndedIds()
    for at_ms in (10, 20):
        ended.add([digest_of(b"%d" % at_ms)], at_ms)
    ended.seal()
    ended.add([digest_of(b"30")], 30)
    ended.forget(20)
    assert len(ended) == 3
    ended.forget(21)
    assert len(ended) == 1
    ended.forget(31)
    assert len(ended) == 0


def test_two_million_ids_take_twelve_bytes_each_in_a_few_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_ids, "MERGED", 2**20)
    monkeypatch.setattr(ended_ids, "MERGED_AT", 8)
    monkeypatch.setattr(ended_ids, "SPAN_MS", 10**9)
    ended, dice = EndedIds(), np.random.default_rng(1)
    packs = [dice.bytes(65_536 * DIGEST_BYTES) for _ in range(32)]
    for at_ms, pack in enumerate(packs):
        ended.add_segment(segment_of(pack, at_ms, at_ms))
    assert len(ended) == 32 * 65_536
    assert len(ended._segments) <= 12
    asked = [packs[7][:DIGEST_BYTES], packs[31][-DIGEST_BYTES:], digest_of(b"none")]
    assert ended.known(asked) == set(asked[:2])
