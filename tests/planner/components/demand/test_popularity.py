"""Hot is the first 5 % of a kind, warm goes to 30 %; hot bases lie on 3 to 5 workers, and only a leaver's keys move."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.components.demand.popularity import Popularity, classes, replication_factor
from planner.components.hashing import preferred, replicas
from planner.components.mismatch import mismatch

WORKERS = st.sets(st.text("abcdef0123", min_size=1, max_size=5), min_size=1, max_size=12)
KEYS = [f"base:{n}" for n in range(20)]


def test_of_a_hundred_bases_five_are_hot_and_the_next_twenty_five_warm() -> None:
    found = classes({f"base:{n:03}": 1000.0 - n for n in range(100)})
    assert [each for each in found if found[each] is Popularity.HOT] == [f"base:{n:03}" for n in range(5)]
    assert Counter(found.values()) == {Popularity.HOT: 5, Popularity.WARM: 25, Popularity.COLD: 70}


def test_kinds_are_ranked_apart_and_what_nobody_asked_for_is_cold() -> None:
    asked = {f"adapter:{n}": 100.0 for n in range(40)} | {"base:a": 3.0, "base:b": 2.0, "base:c": 0.0}
    found = classes(asked)
    assert (found["base:a"], found["base:b"], found["base:c"]) == (Popularity.HOT, Popularity.COLD, Popularity.COLD)
    assert sum(found[f"adapter:{n}"] is Popularity.HOT for n in range(40)) == 2


@given(st.floats(0, 1000))
def test_a_hot_component_lies_on_three_to_five_workers_the_more_the_busier(busy: float) -> None:
    assert 3 <= replication_factor(busy) <= replication_factor(busy + 1) <= 5


@given(WORKERS, st.integers(3, 5))
def test_a_component_has_its_number_of_distinct_workers_or_all(workers: set[str], factor: int) -> None:
    for key in KEYS:
        chosen = replicas(key, workers, factor)
        assert len(set(chosen)) == len(chosen) == min(factor, len(workers))
        assert chosen == replicas(key, sorted(workers, reverse=True), factor)


@given(WORKERS, st.integers(3, 5), st.data())
def test_only_the_components_of_a_worker_that_leaves_move(workers: set[str], factor: int, data: st.DataObject) -> None:
    leaver = data.draw(st.sampled_from(sorted(workers)))
    for key in KEYS:
        before, after = replicas(key, workers, factor), replicas(key, workers - {leaver}, factor)
        assert set(before) - {leaver} <= set(after)
        if leaver not in before:
            assert before == after


def test_components_spread_evenly_over_workers() -> None:
    firsts = Counter(preferred(f"base:{n}", [f"w{i}" for i in range(8)])[0] for n in range(800))
    assert len(firsts) == 8
    assert max(firsts.values()) < 1.5 * 100


def test_mismatch_is_the_sum_of_the_distances_to_a_uniform_allocation() -> None:
    found = mismatch({"a": 0.6, "b": 0.2, "c": 0.1, "d": 0.1})
    assert found.total == pytest.approx(0.70)
    assert found.over == pytest.approx(0.35)
    assert found.under == pytest.approx(0.35)


def test_mismatch_of_an_allocation_like_demand_is_none_whatever_the_units() -> None:
    assert mismatch({"a": 60, "b": 20}, {"a": 3, "b": 1}).total == pytest.approx(0)
    assert mismatch({"a": 1}, {"b": 1}).total == pytest.approx(2)
    assert mismatch({}).total == mismatch({"a": 0.0}).total == 0
    with pytest.raises(ValueError, match="at least 0"):
        mismatch({"a": -1.0})


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.01, 100), min_size=1))
def test_what_is_over_equals_what_is_under(demand: dict[str, float]) -> None:
    found = mismatch(demand)
    assert 0 <= found.total <= 2
    assert found.over == pytest.approx(found.under)
