"""Eq. 4 takes the k workers of least cost; the warm pool covers most scale-ups, and each variant gets what is near."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.scaling.choice import Candidate, Weights, choose, costs
from planner.scaling.warm_pool import Assignment, assign, pool_size

CANDIDATES = st.lists(
    st.builds(
        Candidate, st.text("abcdef", min_size=1, max_size=3), st.floats(0, 50), st.floats(0, 9e4), st.floats(0, 1)
    ),
    max_size=7,
    unique_by=lambda each: each.worker,
)


def test_a_warm_worker_with_a_full_queue_and_half_busy_comes_before_a_cold_idle_one() -> None:
    warm, cold = Candidate("warm", 10, 0, 0.5), Candidate("cold", 0, 22_000, 0)
    assert costs([warm, cold]) == pytest.approx({"warm": 0.35, "cold": 0.5})
    assert choose([cold, warm], 1) == ("warm",)
    assert choose([cold, warm], 1, Weights(queue=0.6, loading=0.2, busy=0.2)) == ("cold",)


@given(CANDIDATES, st.integers(0, 8))
def test_the_workers_chosen_are_the_set_of_that_size_with_the_least_sum(
    candidates: list[Candidate], count: int
) -> None:
    chosen, cost = choose(candidates, count), costs(candidates)
    size = min(count, len(candidates))
    assert len(chosen) == size
    least = min(sum(cost[worker] for worker in each) for each in combinations(cost, size))
    assert sum(cost[worker] for worker in chosen) == pytest.approx(least)


def test_the_pool_covers_what_was_added_within_the_time_of_a_fresh_start() -> None:
    calm = [(60_000.0 * n, 1) for n in range(20)]
    assert pool_size(calm, start_ms=30_000, minimum=0, maximum=50) == 1
    burst = [*calm, (1_200_000.0, 4), (1_205_000.0, 8)]
    assert pool_size(burst, start_ms=30_000, minimum=0, maximum=50, covered=1.0) == 12
    assert pool_size(burst, start_ms=30_000, minimum=0, maximum=50, covered=0.9) == 1
    assert pool_size(burst, start_ms=30_000, minimum=2, maximum=8, covered=1.0) == 8
    assert pool_size([], start_ms=30_000, minimum=2, maximum=8) == 2


def test_each_variant_gets_the_worker_that_serves_it_soonest_and_the_rest_is_started() -> None:
    cost = {("a", "w1"): 0.0, ("a", "w2"): 20.0, ("b", "w1"): 20.0, ("b", "w2"): 5.0}
    found = assign({"a": 2, "b": 1}, ["w1", "w2"], lambda variant, worker: cost[variant, worker], most_fresh=9)
    assert found == Assignment((("a", "w1"), ("b", "w2")), {"a": 1})


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 6)),
    st.sets(st.sampled_from([f"w{n}" for n in range(8)])),
    st.integers(0, 10),
)
def test_every_worker_is_assigned_once_and_nobody_gets_more_than_it_wants(
    wanted: dict[str, int], pool: set[str], most_fresh: int
) -> None:
    found = assign(wanted, sorted(pool), lambda variant, worker: float(len(variant + worker)), most_fresh)
    workers = [worker for _, worker in found.from_pool]
    assert len(set(workers)) == len(workers) == min(len(pool), sum(wanted.values()))
    assert set(workers) <= pool
    assert found.started == min(most_fresh, sum(wanted.values()) - len(workers))
    for variant in wanted:
        taken = sum(each == variant for each, _ in found.from_pool)
        assert taken + found.fresh.get(variant, 0) <= wanted[variant]


def test_one_burst_does_not_empty_the_pool_before_another_variants_first_worker() -> None:
    found = assign({"burst": 9, "new": 1}, ["w1", "w2", "w3"], lambda *_: 0.0, most_fresh=0)
    assert {variant for variant, _ in found.from_pool} == {"burst", "new"}


def test_senseless_pool_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="minimum <= maximum"):
        pool_size([], 1.0, minimum=5, maximum=2)
