"""Eq. 10 lets the lowest leave; Eq. 3 halves in ln 2 / lambda hours; both beat what they should on a skewed stream."""

import math
import random

import pytest

from planner.components.component import Component, Kind, Tier
from planner.components.demand.cold import HOUR_MS, ColdComponent, decay_per_hour, score, select_cold_components
from planner.components.eviction import TYPE_WEIGHTS, EvictionCandidate, ReuseEstimate, lru, score_named, utility
from schemas.errors import Unknown
from tests.planner.components.build import a_component, a_worker, some

GB = 10**9
BASE = Component(id="base:sdxl", bytes=10 * GB, load_ms={Tier.REMOTE: 22_600.0})
ADAPTER = Component(id="adapter:candy", bytes=GB // 5, load_ms={Tier.REMOTE: 4_600.0})


def test_a_base_leaves_before_an_adapter_that_is_used_a_tenth_as_often_unless_its_kind_weighs_more() -> None:
    base = EvictionCandidate(BASE, 22_600.0, 0.0, 0.5)  # 0.5 x 22.6 s / 10 GB = 1.13 s/GB
    adapter = EvictionCandidate(ADAPTER, 4_600.0, 0.0, 0.05)  # 0.05 x 4.6 s / 0.2 GB = 1.15 s/GB
    assert utility(base, 0) * GB == pytest.approx(1130)
    assert utility(adapter, 0) * GB == pytest.approx(1150)
    for weight, base_leaves in ((1.0, True), (1.01, True), (1.03, False)):
        weights = {**TYPE_WEIGHTS, Kind.BASE: weight}
        assert (utility(base, 0, type_weights=weights) < utility(adapter, 0, type_weights=weights)) is base_leaves


def test_worth_falls_with_age_by_beta_per_hour() -> None:
    held = EvictionCandidate(BASE, 22_600.0, 0.0, 0.5)
    assert utility(held, HOUR_MS, aging_per_hour=1.0) == pytest.approx(utility(held, 0) / 2)
    assert utility(held, 3 * HOUR_MS, aging_per_hour=0.0) == utility(held, 0)


def test_the_probability_of_reuse_is_that_of_a_steady_rate() -> None:
    estimate = ReuseEstimate(half_life_ms=1000.0, horizon_ms=100.0)
    for at in range(0, 20_000, 10):
        estimate.on_use("base:a", at)
    assert estimate.probability("base:a", 20_000) == pytest.approx(1 - math.exp(-10), abs=1e-4)
    assert estimate.probability("base:a", 21_000) < estimate.probability("base:a", 20_000)
    assert estimate.probability("base:b", 20_000) == 0.0


def test_a_run_of_uses_counts_before_it_has_become_a_habit_and_a_habit_after_its_last_run() -> None:
    estimate = ReuseEstimate(half_life_ms=1000.0, horizon_ms=20.0)
    for at in range(0, 2000, 10):
        estimate.on_use("base:habit", at)
    for at in range(2300, 2360, 5):
        estimate.on_use("base:run", at)
    during, after = 2360, 2800
    assert estimate.probability("base:run", during) > estimate.probability("base:habit", during)
    assert estimate.probability("base:run", after) < estimate.probability("base:habit", after)


def test_a_use_of_a_fused_component_is_one_of_its_base() -> None:
    estimate = ReuseEstimate(1000.0, 100.0)
    estimate.on_use("fused:a+x@1", 5)
    assert estimate.probability("base:a", 5) == estimate.probability("fused:a+x@1", 5) > 0


def test_the_utility_keeps_what_is_asked_for_often_where_lru_keeps_what_was_asked_for_last() -> None:
    hits = {name: _hit_rate(name, _skewed_with_scans(random.Random(5))) for name in ("lru", "utility")}
    assert hits["utility"] > hits["lru"] + 0.05


def test_an_unknown_eviction_lists_the_known_ones() -> None:
    with pytest.raises(Unknown, match="lru, utility"):
        score_named("fifo")
    assert score_named("lru") is lru


def test_the_score_of_a_cold_component_halves_after_ln_2_over_lambda_hours() -> None:
    component = ColdComponent("base:a", 4.0, 0.0, 22_600.0, 10)
    for per_hour in (0.01, 0.1):
        half_ms = math.log(2) / per_hour * HOUR_MS
        assert score(component, half_ms, per_hour) == pytest.approx(score(component, 0.0, per_hour) / 2)


def test_lambda_goes_from_a_hundredth_when_idle_to_a_tenth_per_hour_when_full() -> None:
    assert [decay_per_hour(load) for load in (-1, 0, 0.5, 1, 2)] == pytest.approx([0.01, 0.01, 0.055, 0.1, 0.1])


def test_a_room_holds_the_cold_components_that_save_most_per_byte() -> None:
    dear = ColdComponent("adapter:dear", 1.0, 0.0, 90.0, 10)
    cheap = ColdComponent("adapter:cheap", 1.0, 0.0, 10.0, 10)
    never = ColdComponent("adapter:never", 0.0, 0.0, 90.0, 1)
    old = ColdComponent("adapter:old", 1.0, -50 * HOUR_MS, 90.0, 10)
    assert select_cold_components([cheap, old, never, dear], 25, 0.0, load=1.0) == ("adapter:dear", "adapter:cheap")
    assert select_cold_components([cheap, old, never, dear], 25, 0.0, load=0.0) == ("adapter:dear", "adapter:old")


def _skewed_with_scans(dice: random.Random) -> list[str]:
    """Six popular bases, and runs of bases that come once."""
    stream = []
    for n in range(300):
        stream += [f"base:{dice.randrange(6)}" for _ in range(5)] + [f"base:once{n}-{i}" for i in range(3)]
    return stream


def _hit_rate(name: str, stream: list[str]) -> float:
    components = some(*set(stream))
    worker = a_worker(components, device=60, host=0, volume=0, score=score_named(name), half_life_ms=100.0)
    hits = [not worker.use([each], at).load_ms for at, each in enumerate(stream)]
    return sum(hits) / len(hits)


def test_of_equal_reuse_the_smaller_and_the_dearer_to_load_stay() -> None:
    small, large = a_component("adapter:s", size=1), a_component("adapter:l", size=9)
    assert utility(EvictionCandidate(small, 10.0, 0.0, 0.5), 0) > utility(EvictionCandidate(large, 10.0, 0.0, 0.5), 0)
    assert utility(EvictionCandidate(large, 90.0, 0.0, 0.5), 0) >= utility(EvictionCandidate(small, 10.0, 0.0, 0.5), 0)
