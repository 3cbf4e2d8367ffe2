"""Pools of pinned memory: one per cluster of sizes, as large as its largest; a request gets the smallest that fits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.components.pools import MAX_SIZES, best_pool, pool_sizes

MB = 2**20
ALLOCATIONS = st.dictionaries(st.integers(1, 2**34), st.floats(0.1, 1000), min_size=1, max_size=40)


def test_a_mix_of_two_sizes_gives_both() -> None:
    assert pool_sizes({100 * MB: 50.0, 6000 * MB: 3.0}) == (100 * MB, 6000 * MB)
    assert pool_sizes({100 * MB: 50.0, 101 * MB: 20.0, 5900 * MB: 1.0, 6000 * MB: 3.0}, pools=2) == (
        101 * MB,
        6000 * MB,
    )


def test_of_pools_of_1_4_and_16_mb_5_mb_get_16_and_20_mb_get_none() -> None:
    pools = (1 * MB, 4 * MB, 16 * MB)
    assert best_pool(pools, 5 * MB) == 16 * MB
    assert best_pool(pools, 4 * MB) == 4 * MB
    assert best_pool(pools, 20 * MB) is None


@given(ALLOCATIONS, st.integers(1, 6))
def test_every_size_finds_a_pool_and_every_pool_is_a_size(allocations: dict[int, float], pools: int) -> None:
    sizes = pool_sizes(allocations, pools)
    assert 1 <= len(sizes) <= pools
    assert list(sizes) == sorted(set(sizes))
    assert set(sizes) <= allocations.keys()
    assert all(best_pool(sizes, size) is not None for size in allocations)


@given(st.dictionaries(st.integers(1, 10**6), st.floats(0.1, 10), min_size=3, max_size=9), st.integers(2, 3))
def test_no_other_split_of_the_sizes_is_nearer_to_its_means(allocations: dict[int, float], pools: int) -> None:
    ranked = sorted(allocations)
    found = _cost(ranked, allocations, [ranked.index(size) + 1 for size in pool_sizes(allocations, pools)])
    splits = [[a, len(ranked)] for a in range(1, len(ranked))]
    if pools == 3:
        splits = [[a, b, len(ranked)] for a in range(1, len(ranked)) for b in range(a + 1, len(ranked))]
    assert found <= min(_cost(ranked, allocations, ends) for ends in splits) + 1e-6


def test_more_sizes_than_are_clustered_still_find_a_pool_each() -> None:
    allocations = dict.fromkeys(range(1, 3 * MAX_SIZES), 1.0)
    assert pool_sizes(allocations)[-1] == max(allocations)


def test_no_allocations_need_no_pool_and_senseless_ones_are_refused() -> None:
    assert pool_sizes({}) == ()
    with pytest.raises(ValueError, match="above 0"):
        pool_sizes({0: 1.0})


def _cost(ranked: list[int], weights: dict[int, float], ends: list[int]) -> float:
    total = 0.0
    for first, end in zip([0, *ends], ends, strict=False):
        part = ranked[first:end]
        weight = sum(weights[size] for size in part)
        mean = sum(weights[size] * math.log(size) for size in part) / weight
        total += sum(weights[size] * (math.log(size) - mean) ** 2 for size in part)
    return total
