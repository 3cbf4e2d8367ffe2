"""A worker's store: what it moves, in which order, and that what it says is what is there, whatever fails."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.components.store import Prefetched
from agents.components.weight_files import ComponentFailed
from planner.components.component import Component, Tier
from planner.components.tiers import LOCAL
from streams.weights.errors import VolumeFull
from tests.agents.components.build import Shop, failing

IDS = ("base:a", "base:b", "adapter:x", "adapter:y", "control:c")


def agrees(shop: Shop) -> bool:
    """Whether the tiers hold what is there, each within its budget, and nothing else is in memory."""
    store = shop.store
    said = {tier: store.resident_ids(tier) for tier in LOCAL}
    assert said == {Tier.VOLUME: shop.shelf.there, Tier.HOST: set(shop.shelf.live), Tier.DEVICE: shop.parts.there}
    report = store.report()
    return all(report.held_bytes[tier.label] <= report.budget_bytes[tier.label] for tier in LOCAL)


def test_a_component_is_fetched_once_read_once_and_then_found_on_the_device() -> None:
    shop = Shop("base:a")
    shop.store.bring(["base:a"])
    shop.store.bring(["base:a"])
    assert shop.shelf.asked == ["fetch base:a", "read base:a"]
    assert agrees(shop)
    report = shop.store.report()
    assert (report.hits, report.loads) == ({"remote": 1, "device": 1}, 1)
    assert report.moved_bytes == {"volume": 10, "host": 10, "device": 10}
    assert report.held == dict.fromkeys(("volume", "host", "device"), ("base:a",))


def test_what_left_the_device_comes_back_from_host_memory_without_reading() -> None:
    shop = Shop("base:a", "base:b", device=10)
    for base in ("base:a", "base:b", "base:a"):
        shop.store.bring([base])
    assert shop.shelf.asked == ["fetch base:a", "read base:a", "fetch base:b", "read base:b"]
    assert shop.parts.there == {"base:a"}
    assert agrees(shop)


def test_a_base_begins_first_and_its_adapters_are_read_while_it_loads() -> None:
    shop, both_are_read = Shop(*IDS), threading.Event()

    def before(asked: str) -> None:
        if asked == "read adapter:x":
            both_are_read.set()

    shop.shelf.before = before
    shop.parts.before = lambda id_: None if id_ != "base:a" else _must(both_are_read)
    shop.store.bring(["adapter:x", "base:a"])
    base, adapter = shop.store.spans
    assert (base.id, adapter.id) == ("base:a", "adapter:x")
    assert base.began_s <= adapter.began_s < base.ended_s <= adapter.ended_s
    assert agrees(shop)


def _must(event: threading.Event) -> None:
    assert event.wait(30), "the adapter was not read while the base was being built"


@pytest.mark.parametrize("fails", ["fetch base:a", "read base:a", "fetch adapter:x", "read adapter:x"])
def test_what_fails_on_its_way_is_held_nowhere_and_can_be_asked_for_again(fails: str) -> None:
    shop = Shop(*IDS)
    shop.shelf.before = failing(fails)
    with pytest.raises(ComponentFailed, match=fails):
        shop.store.bring(["base:a", "adapter:x"])
    assert agrees(shop)
    shop.shelf.before = failing()
    shop.store.bring(["base:a", "adapter:x"])
    assert {"base:a", "adapter:x"} <= shop.parts.there
    assert agrees(shop)


def test_a_part_that_cannot_be_built_is_not_said_to_be_on_the_device() -> None:
    shop = Shop(*IDS)
    shop.parts.before = failing("adapter:x")
    with pytest.raises(ComponentFailed, match="adapter:x"):
        shop.store.bring(["base:a", "adapter:x"])
    assert shop.store.resident_ids(Tier.DEVICE) == {"base:a"}
    assert agrees(shop)


def test_components_that_do_not_fit_the_device_together_are_refused_and_nothing_is_moved() -> None:
    shop = Shop(*IDS, device=15)
    with pytest.raises(ComponentFailed, match="20 bytes, budget 15"):
        shop.store.bring(["base:a", "adapter:x"])
    assert not shop.shelf.asked


def test_a_disk_with_less_room_than_its_budget_loses_what_is_worth_least() -> None:
    shop = Shop(*IDS)
    shop.store.bring(["base:a"])
    shop.store.bring(["base:b"])
    is_full = [True]

    def before(asked: str) -> None:
        if asked == "fetch adapter:x" and is_full[0]:
            is_full[0] = False
            raise VolumeFull("no room", 10)

    shop.shelf.before = before
    shop.store.bring(["base:b", "adapter:x"])
    assert shop.shelf.there == {"base:b", "adapter:x"}
    assert agrees(shop)


def test_a_disk_that_is_full_of_what_is_needed_is_told_with_the_component() -> None:
    shop = Shop("base:a")

    def full(asked: str) -> None:
        raise VolumeFull(f"{asked}: no room", 10)

    shop.shelf.before = full
    with pytest.raises(ComponentFailed, match="base:a cannot be fetched: fetch base:a: no room"):
        shop.store.bring(["base:a"])
    assert agrees(shop)


def test_components_that_an_earlier_process_left_on_the_volume_are_found_there() -> None:
    shop = Shop("base:a")
    shop.shelf.there.add("base:a")
    shop.store.refresh()
    use = shop.store.bring(["base:a"])
    assert use.found == {"base:a": Tier.VOLUME}
    assert shop.shelf.asked == ["read base:a"]


def test_what_another_process_removed_from_the_volume_is_not_said_to_be_there() -> None:
    shop = Shop("base:a", "base:b")
    shop.store.prefetch("base:a", Tier.VOLUME)
    shop.shelf.there.clear()
    shop.store.refresh()
    assert agrees(shop)


def test_a_component_without_room_on_the_volume_passes_through_and_is_removed() -> None:
    shop = Shop("base:a", volume=5)
    shop.store.bring(["base:a"])
    assert shop.shelf.there == set()
    assert shop.parts.there == {"base:a"}
    assert agrees(shop)


def test_no_prefetch_begins_while_a_call_is_under_way() -> None:
    shop = Shop(*IDS)
    with shop.store.call():
        assert shop.store.prefetch("base:a", Tier.DEVICE) is Prefetched.BUSY
    assert not shop.shelf.asked
    assert shop.store.prefetch("base:a", Tier.DEVICE) is Prefetched.LOADED
    assert shop.parts.there == {"base:a"}
    assert not shop.store.report().hits
    assert agrees(shop)


def test_a_prefetch_that_fails_is_told_and_leaves_nothing_behind() -> None:
    shop = Shop(*IDS)
    shop.shelf.before = failing("read base:a")
    assert shop.store.prefetch("base:a", Tier.HOST) is Prefetched.FAILED
    assert shop.store.prefetch("base:unknown", Tier.HOST) is Prefetched.FAILED
    assert agrees(shop)


def test_a_prefetch_for_which_something_better_would_have_to_leave_finds_no_room() -> None:
    shop = Shop("base:a", "base:b", device=10)
    shop.store.bring(["base:a"])
    assert shop.store.prefetch("base:b", Tier.DEVICE) is Prefetched.NO_ROOM
    assert shop.parts.there == {"base:a"}
    assert agrees(shop)


def test_a_call_that_needs_what_is_being_prefetched_waits_for_it_and_loads_it_no_second_time() -> None:
    shop, is_reading, may_go_on = Shop(*IDS), threading.Event(), threading.Event()

    def before(asked: str) -> None:
        if asked == "read base:a":
            is_reading.set()
            assert may_go_on.wait(30)

    shop.shelf.before = before
    ahead = threading.Thread(target=shop.store.prefetch, args=("base:a", Tier.HOST))
    ahead.start()
    assert is_reading.wait(30)
    calling = threading.Thread(target=shop.store.bring, args=(["base:a"],))
    calling.start()
    shop.store.bring(["base:b"])  # another call is not held up
    may_go_on.set()
    for thread in (ahead, calling):
        thread.join(30)
        assert not thread.is_alive()
    assert shop.shelf.asked.count("read base:a") == 1
    assert agrees(shop)


def test_counters_go_on_from_those_of_the_store_before() -> None:
    first = Shop("base:a")
    first.store.bring(["base:a"])
    second = Shop("base:a")
    second.store._before = first.store.report()
    second.store.bring(["base:a"])
    report = second.store.report()
    assert (report.hits, report.loads, report.moved_bytes["device"]) == ({"remote": 2}, 2, 20)


def test_a_combination_takes_room_on_the_device_alone_and_is_forgotten_with_its_base() -> None:
    shop = Shop("base:a", "base:b", "adapter:x", device=30)
    shop.store.bring(["base:a", "adapter:x"])
    shop.store.add_fused(Component(id="fused:a+x@1", bytes=10, load_ms={}), ["base:a"], ["adapter:x"])
    shop.parts.there.add("fused:a+x@1")
    shop.store.was_fused("fused:a+x@1", 5.0)
    assert agrees_on_device(shop, {"base:a", "adapter:x", "fused:a+x@1"})
    shop.store.add_fused(Component(id="fused:a+x@2", bytes=20, load_ms={}), ["base:a"], ["adapter:x"])
    shop.parts.there.add("fused:a+x@2")
    shop.store.was_fused("fused:a+x@2", 5.0)
    assert agrees_on_device(shop, {"base:a", "fused:a+x@2"})  # the adapter left, as nothing else made room
    assert "fused:a+x@1" not in shop.store.known
    shop.parts.there.remove("base:a")
    shop.store.refresh()
    assert agrees_on_device(shop, set())


def agrees_on_device(shop: Shop, wanted: set[str]) -> bool:
    assert shop.store.resident_ids(Tier.DEVICE) == shop.parts.there
    return shop.parts.there == wanted


def test_a_combination_without_room_beside_its_base_is_refused() -> None:
    shop = Shop("base:a", "adapter:x", device=20)
    shop.store.bring(["base:a", "adapter:x"])
    with pytest.raises(ComponentFailed, match="fused:a\\+x@1 has no room on the device: 11 bytes beside base:a"):
        shop.store.add_fused(Component(id="fused:a+x@1", bytes=11, load_ms={}), ["base:a"], ["adapter:x"])
    assert agrees(shop)


STEPS = st.tuples(
    st.sampled_from(("bring", "prefetch", "lose")),
    st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True),
    st.sampled_from(LOCAL),
    st.sampled_from(("", "fetch", "read", "put")),
)


@given(st.lists(STEPS, max_size=25), st.integers(0, 60), st.integers(0, 60), st.integers(30, 60))
def test_whatever_fails_or_is_removed_the_tiers_hold_what_is_there_within_their_budgets(
    steps: list[tuple[str, list[str], Tier, str]], volume: int, host: int, device: int
) -> None:
    shop = Shop(*IDS, volume=volume, host=host, device=device)
    for kind, ids, tier, fails in steps:
        shop.shelf.before = failing(*(f"{fails} {each}" for each in ids[:1]))
        shop.parts.before = failing(*(ids[:1] if fails == "put" else ()))
        if kind == "lose":
            shop.shelf.there -= set(ids)
            shop.store.refresh()
        elif kind == "prefetch":
            shop.store.prefetch(ids[0], tier)
        else:
            try:
                shop.store.bring(ids)
            except ComponentFailed:
                assert fails
            else:
                assert set(ids) <= shop.parts.there
        assert agrees(shop)
