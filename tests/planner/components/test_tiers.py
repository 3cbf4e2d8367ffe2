"""The tiers of one worker: budgets hold, hits are counted by tier, what was fused from a base leaves with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.components.component import Component, InvalidComponent, Tier, base_of
from planner.components.eviction import SCORES, lru
from planner.components.tiers import LOCAL, Budgets, DoesNotFit
from tests.planner.components.build import a_component, a_worker, some

IDS = [*(f"base:b{n}" for n in range(5)), *(f"adapter:a{n}" for n in range(6)), "fused:b0+a0@1", "fused:b1+a1@1"]
SIZES = st.fixed_dictionaries({each: st.integers(1, 40) for each in IDS})


def test_a_component_climbs_from_remote_once_and_is_then_found_on_the_device() -> None:
    worker = a_worker(some("base:a"))
    first, second = worker.use(["base:a"], 0), worker.use(["base:a"], 1)
    assert (first.found, first.load_ms) == ({"base:a": Tier.REMOTE}, {"base:a": 100.0})
    assert first.moved_bytes == {Tier.VOLUME: 10, Tier.HOST: 10, Tier.DEVICE: 10}
    assert (second.load_ms, second.moved_bytes) == ({}, {})
    assert worker.hits == {Tier.REMOTE: 1, Tier.DEVICE: 1}
    assert worker.loads == 1


def test_what_left_the_device_is_loaded_from_the_nearest_tier_that_still_has_it() -> None:
    worker = a_worker(some("base:a", "base:b"), device=10, host=10, score=lru)
    worker.use(["base:a"], 0)
    worker.use(["base:b"], 1)  # a leaves device and host
    assert worker.use(["base:a"], 2).load_ms == {"base:a": 30.0}
    assert worker.hits == {Tier.REMOTE: 2, Tier.VOLUME: 1}


def test_a_request_that_the_device_cannot_hold_changes_nothing() -> None:
    worker = a_worker(some("base:a", "adapter:x"), device=15)
    with pytest.raises(DoesNotFit, match="20 bytes, budget 15"):
        worker.use(["base:a", "adapter:x"], 0)
    assert not any(worker.resident(tier) for tier in LOCAL)
    assert not worker.hits


def test_the_parts_of_a_request_never_leave_for_one_another() -> None:
    components = some("base:a", "adapter:x", "adapter:y")
    worker = a_worker(components, device=20)
    worker.use(["base:a", "adapter:x"], 0)
    use = worker.use(["base:a", "adapter:y"], 1)
    assert use.evicted == [("adapter:x", Tier.DEVICE)]
    assert worker.resident(Tier.DEVICE) == {"base:a", "adapter:y"}


def test_an_evicted_base_takes_what_was_fused_from_it_along_in_that_tier() -> None:
    components = some("base:a", "base:b", "adapter:x") | {
        "fused:a+x@1": Component(id="fused:a+x@1", bytes=10, load_ms={Tier.HOST: 5.0})
    }
    worker = a_worker(components, device=30)
    worker.use(["base:a", "adapter:x"], 0)
    worker.add_fused("fused:a+x@1", 0)
    assert worker.evict("base:a", Tier.DEVICE) == ["fused:a+x@1", "base:a"]
    assert worker.resident(Tier.DEVICE) == {"adapter:x"}
    assert worker.resident(Tier.HOST) == {"base:a", "adapter:x"}
    with pytest.raises(InvalidComponent, match="load time"):  # held nowhere: its parts are asked for
        worker.use(["fused:a+x@1"], 1)


def test_what_was_dear_to_fuse_stays_beside_a_cheap_adapter() -> None:
    components = some("base:a", "adapter:y") | {
        "fused:a+x@1": Component(id="fused:a+x@1", bytes=10, load_ms={Tier.HOST: 500.0})
    }
    worker = a_worker(components, device=25)
    worker.use(["base:a"], 0)
    worker.add_fused("fused:a+x@1", 1, keep=["base:a"])
    worker.prefetch("adapter:y", Tier.DEVICE, 2)
    assert worker.resident(Tier.DEVICE) == {"base:a", "fused:a+x@1"}
    assert worker.next_victim(Tier.DEVICE, 2, keep=["base:a"]) == "fused:a+x@1"
    worker = a_worker(components, device=30)
    worker.use(["base:a", "adapter:y"], 0)
    worker.add_fused("fused:a+x@1", 0, keep=["base:a"])
    assert worker.next_victim(Tier.DEVICE, 1, keep=["base:a"]) == "adapter:y"


def test_a_budget_changes_where_what_is_held_fits_it() -> None:
    worker = a_worker(some("base:a", "base:b"), device=20)
    worker.use(["base:a"], 0)
    with pytest.raises(DoesNotFit, match="device holds 10 bytes, and is to have 9"):
        worker.resize(Budgets(volume=100, host=100, device=9))
    worker.resize(Budgets(volume=100, host=100, device=10))
    assert worker.use(["base:b"], 1).evicted == [("base:a", Tier.DEVICE)]


def test_what_lies_on_a_volume_already_is_found_there_and_counts_as_no_move() -> None:
    worker = a_worker(some("base:a", "base:b"), volume=15)
    assert worker.adopt("base:a", Tier.VOLUME)
    assert not worker.adopt("base:b", Tier.VOLUME)
    assert not worker.moved_bytes
    use = worker.use(["base:a"], 0)
    assert (use.found, use.load_ms) == ({"base:a": Tier.VOLUME}, {"base:a": 30.0})


def test_a_component_larger_than_a_tier_passes_through_it() -> None:
    worker = a_worker(some("base:a"), host=5)
    assert worker.use(["base:a"], 0).moved_bytes[Tier.HOST] == 10
    assert worker.resident(Tier.HOST) == frozenset()
    assert worker.resident(Tier.DEVICE) == {"base:a"}


def test_a_pinned_component_leaves_last() -> None:
    worker = a_worker(some("base:a", "base:b", "base:c"), device=20, score=lru)
    worker.pinned = frozenset({("base:a", Tier.DEVICE)})
    for at, each in enumerate(["base:a", "base:b", "base:c", "base:b"]):
        worker.use([each], at)
    assert worker.resident(Tier.DEVICE) == {"base:a", "base:b"}


def test_a_prefetch_counts_bytes_but_no_hit_and_displaces_nothing_that_is_worth_more() -> None:
    worker = a_worker(some("base:a", "base:b"), host=10)
    worker.use(["base:a"], 0)
    before = dict(worker.hits)
    use = worker.prefetch("base:b", Tier.HOST, 1)
    assert (use.moved_bytes, use.load_ms) == ({Tier.VOLUME: 10, Tier.HOST: 10}, {"base:b": 95.0})
    assert worker.resident(Tier.HOST) == {"base:a"}
    assert worker.hits == before
    assert worker.tier_of("base:b") is Tier.VOLUME


def test_a_prefetched_component_is_found_where_it_was_put() -> None:
    worker = a_worker(some("adapter:x"))
    worker.prefetch("adapter:x", Tier.HOST, 0)
    assert worker.use(["adapter:x"], 1).load_ms == {"adapter:x": 5.0}


def test_loading_beside_one_another_takes_as_long_as_the_longest() -> None:
    components = some("base:a") | {"adapter:x": a_component("adapter:x", remote=40.0)}
    use = a_worker(components).use(["base:a", "adapter:x"], 0)
    assert (use.serial_ms, use.overlapped_ms) == (140.0, 100.0)


@given(
    SIZES,
    st.lists(st.tuples(st.lists(st.sampled_from(IDS), min_size=1, max_size=3), st.booleans()), max_size=40),
    st.integers(20, 90),
    st.integers(0, 60),
    st.integers(0, 100),
    st.sampled_from(sorted(SCORES)),
)
def test_budgets_hold_and_bytes_are_those_of_what_is_held(
    sizes: dict[str, int], steps: list[tuple[list[str], bool]], device: int, host: int, volume: int, name: str
) -> None:
    components = {each: a_component(each, size=size) for each, size in sizes.items()}
    worker = a_worker(components, device, host, volume, SCORES[name])
    for at, (ids, is_prefetch) in enumerate(steps):
        if is_prefetch:
            worker.prefetch(ids[0], Tier.HOST, at)
        elif sum(sizes[each] for each in set(ids)) <= device:
            use = worker.use(ids, at)
            assert set(ids) <= worker.resident(Tier.DEVICE)
            assert {each for each in set(ids) if use.found[each] is not Tier.DEVICE} == use.load_ms.keys()
        for tier, budget in zip(LOCAL, (volume, host, device), strict=True):
            held = worker.resident(tier)
            assert worker.resident_bytes(tier) == sum(sizes[each] for each in held) <= budget


@given(st.lists(st.sampled_from(IDS), max_size=60), st.integers(40, 120))
def test_whenever_a_base_leaves_a_tier_what_was_fused_from_it_leaves_too(ids: list[str], device: int) -> None:
    worker = a_worker({each: a_component(each) for each in IDS}, device=device, host=50, volume=70)
    for at, each in enumerate(ids):
        for left, tier in worker.use([each], at).evicted:
            if left.startswith("base:") and base_of(each) != left:
                assert not any(base_of(other) == left for other in worker.resident(tier) if other != each)
