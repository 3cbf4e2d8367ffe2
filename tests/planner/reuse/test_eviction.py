"""Eviction: what is expired leaves, then as little as the byte budget asks for, in the order of the policy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reuse.eviction import ORDERS, Entry, evicted, is_expired, order_named
from schemas.errors import Unknown

ENTRIES = st.lists(
    st.builds(
        Entry,
        key=st.uuids().map(str),
        created_ms=st.integers(0, 1000),
        bytes=st.integers(1, 50),
        uses=st.integers(0, 5),
        saved_steps=st.integers(0, 100),
    ),
    max_size=30,
    unique_by=lambda entry: entry.key,
)


@given(ENTRIES, st.integers(0, 600), st.integers(0, 1200), st.sampled_from(sorted(ORDERS)))
def test_what_stays_is_fresh_and_within_budget_and_nothing_leaves_without_need(
    entries: list[Entry], budget: int, ttl_ms: int, name: str
) -> None:
    leaving = evicted(entries, 1000, ttl_ms, budget, ORDERS[name])
    staying = [entry for entry in entries if entry not in leaving]
    assert not any(is_expired(entry, 1000, ttl_ms) for entry in staying)
    assert sum(entry.bytes for entry in staying) <= budget
    pressed = [entry for entry in leaving if not is_expired(entry, 1000, ttl_ms)]
    if pressed:
        assert sum(entry.bytes for entry in (*staying, pressed[-1])) > budget


@given(ENTRIES)
def test_the_order_in_which_entries_are_listed_does_not_matter(entries: list[Entry]) -> None:
    assert evicted(entries, 500, 800, 100) == evicted(reversed(entries), 500, 800, 100)


def test_fifo_takes_the_oldest_and_lcbfu_what_has_saved_least() -> None:
    old = Entry(key="old", created_ms=1, bytes=10, uses=3, saved_steps=30)
    new = Entry(key="new", created_ms=2, bytes=10)
    assert evicted([old, new], 10, 100, 10, ORDERS["fifo"]) == [old]
    assert evicted([old, new], 10, 100, 10, ORDERS["lcbfu"]) == [new]


def test_an_unknown_order_lists_the_known_ones() -> None:
    with pytest.raises(Unknown, match="fifo"):
        order_named("fif")
    assert order_named("fifo") is ORDERS["fifo"]
