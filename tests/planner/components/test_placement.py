"""The placement of a cluster: hot on 3 to 5 devices with companions, warm in host memory, cold only where it lies."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.components.component import Component, ComponentRequest, Tier
from planner.components.demand.counts import ComponentDemand
from planner.components.demand.popularity import Popularity
from planner.components.holdings import Holdings
from planner.components.placement import PlacementDemand, Residency, moves, place
from planner.components.tiers import Budgets
from tests.planner.components.build import a_component, some

ROOMY = Budgets(volume=1000, host=200, device=60)
NOBODY = Holdings()
BASES = some(*(f"base:{n}" for n in range(12)))
ADAPTERS = some(*(f"adapter:{n}" for n in range(8)), size=2)  # type: ignore[arg-type]
COMPONENTS: dict[str, Component] = BASES | ADAPTERS
DEMAND = PlacementDemand(
    requests=dict.fromkeys(COMPONENTS, 10.0),
    popularity={"base:0": Popularity.HOT, "base:1": Popularity.HOT, "adapter:0": Popularity.HOT},
    companions={"base:0": ("adapter:0", "adapter:1"), "base:1": ("adapter:2",)},
    replication={"base:1": 5},
    expected=("base:2", "adapter:2"),
)


def _workers(count: int, budgets: Budgets = ROOMY) -> dict[str, Budgets]:
    return {f"w{n}": budgets for n in range(count)}


def test_hot_bases_are_on_three_to_five_devices_with_the_adapters_that_come_with_them() -> None:
    found = place(_workers(8), COMPONENTS, DEMAND, NOBODY, 0)
    homes = found.holders("base:0")
    assert (len(homes), len(found.holders("base:1"))) == (3, 5)
    assert set(homes) <= set(found.holders("adapter:0")) & set(found.holders("adapter:1"))
    assert found.unplaced == ()


def test_where_there_are_fewer_workers_each_holds_the_hot_bases() -> None:
    assert place(_workers(2), COMPONENTS, DEMAND, NOBODY, 0).holders("base:1") == ["w0", "w1"]
    assert place({}, COMPONENTS, DEMAND, NOBODY, 0) == Residency({}, ("base:0", "base:1"))


def test_companions_go_to_host_memory_where_the_device_is_full() -> None:
    tight = Budgets(volume=100, host=100, device=11)
    found = place(_workers(4, tight), COMPONENTS, DEMAND, NOBODY, 0)
    assert found.holders("adapter:0", Tier.DEVICE) == []
    assert set(found.holders("adapter:0", Tier.HOST)) >= set(found.holders("base:0"))


def test_a_hot_base_that_fits_nowhere_is_named() -> None:
    assert place(_workers(3, Budgets(volume=9, host=9, device=9)), COMPONENTS, DEMAND, NOBODY, 0).unplaced == (
        "base:0",
        "base:1",
    )


def test_what_is_expected_lies_in_host_memory_of_one_worker_which_has_a_base_that_it_comes_with() -> None:
    found = place(_workers(8), COMPONENTS, DEMAND, NOBODY, 0)
    assert len(found.holders("base:2", Tier.HOST)) == 1
    assert found.holders("base:2", Tier.DEVICE) == []
    assert set(found.holders("adapter:2", Tier.HOST)) <= set(found.holders("base:1"))


def test_room_for_a_base_that_is_not_hot_stays_free_beside_the_hot_ones() -> None:
    found = place(_workers(3, Budgets(volume=0, host=0, device=25)), COMPONENTS, DEMAND, NOBODY, 0)
    for tiers in found.by_worker.values():
        held = sum(COMPONENTS[each].bytes for each, tier in tiers.items() if tier is Tier.DEVICE)
        assert held + 10 <= 25


def test_cold_components_are_listed_where_they_lie_and_are_never_moved() -> None:
    held = Holdings({"w1": {Tier.VOLUME: frozenset({"base:7", "base:8"})}})
    found = place(_workers(3), COMPONENTS, DEMAND, held, 0)
    assert found.by_worker["w1"].keys() >= {"base:7", "base:8"}
    assert not any(move.id in {"base:7", "base:8"} for move in moves(found, held, COMPONENTS))
    small = place(_workers(3, Budgets(volume=10, host=200, device=60)), COMPONENTS, DEMAND, held, 0)
    assert len({"base:7", "base:8"} & small.by_worker["w1"].keys()) == 1


def test_moves_are_what_workers_lack_with_where_it_comes_from() -> None:
    residency = Residency({"w0": {"base:0": Tier.DEVICE, "base:1": Tier.HOST}})
    held = Holdings({"w0": {Tier.VOLUME: frozenset({"base:0"}), Tier.DEVICE: frozenset({"base:1"})}})
    (move,) = moves(residency, held, COMPONENTS)
    assert move == ("w0", "base:0", Tier.VOLUME, Tier.DEVICE, 10)


@settings(max_examples=40)
@given(st.integers(1, 10), st.integers(0, 9))
def test_placing_again_moves_nothing_and_a_worker_that_leaves_moves_only_what_it_had(count: int, leaver: int) -> None:
    workers = _workers(count, Budgets(volume=10_000, host=10_000, device=10_000))
    before = place(workers, COMPONENTS, DEMAND, NOBODY, 0)
    held = _as_held(before)
    assert moves(place(workers, COMPONENTS, DEMAND, held, 0), held, COMPONENTS) == ()
    left = {worker: budgets for worker, budgets in workers.items() if worker != f"w{leaver}"}
    had = before.by_worker.get(f"w{leaver}", {}).keys()
    hot = {"base:0", "base:1"}
    moved = {move.id for move in moves(place(left, COMPONENTS, DEMAND, held, 0), held, COMPONENTS)}
    assert moved & hot <= had


@settings(max_examples=60)
@given(
    st.integers(0, 6),
    st.integers(0, 60),
    st.integers(0, 60),
    st.dictionaries(st.sampled_from(sorted(COMPONENTS)), st.sampled_from(list(Popularity))),
    st.lists(st.sampled_from(sorted(COMPONENTS)), max_size=6, unique=True),
)
def test_no_tier_is_given_more_than_its_budget(
    count: int, device: int, host: int, popularity: dict[str, Popularity], expected: list[str]
) -> None:
    demand = PlacementDemand(
        requests=dict.fromkeys(COMPONENTS, 1.0), popularity=popularity, companions=DEMAND.companions,
        expected=expected,
    )  # fmt: skip
    budgets = Budgets(volume=30, host=host, device=device)
    found = place(_workers(count, budgets), COMPONENTS, demand, NOBODY, 0)
    for tiers in found.by_worker.values():
        for tier in (Tier.VOLUME, Tier.HOST, Tier.DEVICE):
            assert sum(COMPONENTS[each].bytes for each, at in tiers.items() if at is tier) <= budgets.of(tier)


def test_the_view_lists_every_component_and_tier_by_worker() -> None:
    view = Holdings(
        {"w0": {Tier.DEVICE: frozenset({"base:0"}), Tier.HOST: frozenset({"base:0", "adapter:1"})}, "w1": {}}
    )
    assert view.holders("base:0") == ["w0"]
    assert view.holders("adapter:1") == []
    assert view.holders("adapter:1", Tier.HOST) == ["w0"]
    assert view.replicas(Tier.HOST) == {"adapter:1": 1, "base:0": 1}


def test_what_a_worker_lacks_costs_its_load_time_unless_a_job_before_loads_it() -> None:
    view = Holdings({"w0": {Tier.HOST: frozenset({"base:0"})}})
    assert view.missing_ms("w0", ["base:0", "adapter:1"], COMPONENTS) == pytest.approx(5 + 100)
    assert view.missing_ms("w9", ["base:0"], COMPONENTS) == 100
    assert view.with_pending("w0", ["base:0"]).missing_ms("w0", ["base:0", "adapter:1"], COMPONENTS) == 100


def test_demand_counts_components_pairs_and_combinations_and_survives_a_restart() -> None:
    demand = ComponentDemand(half_life_ms=1000.0)
    asked = ComponentRequest(base="base:0", adapters={"adapter:1": 0.8}, controls=("control:o",))
    assert asked.ids == ("base:0", "adapter:1", "control:o")
    for at in range(3):
        demand.on_request(asked, at)
    demand.on_request(ComponentRequest(base="base:1"), 2)
    again = ComponentDemand(half_life_ms=1000.0)
    again.restore(json.loads(json.dumps(demand.snapshot())))
    for each in (demand, again):
        assert each.popularity(2)["base:0"] is Popularity.HOT
        assert each.companions("base:0", 2, free_share=1.0, limit=5) == ("adapter:1", "control:o")
        assert [static.id for static in each.static(COMPONENTS, 100, 2)] == ["fused:0+1@0.8"]
        assert each.bases(2).keys() == {"base:0", "base:1"}
        assert each.last_ms("base:1") == 2
        assert each.rate_per_s("base:0", 2) > each.rate_per_s("base:1", 2) > 0
        assert each.pairs("base:1", 2) == {}


def test_components_that_are_not_known_are_passed_over() -> None:
    demand = PlacementDemand(
        requests={"base:gone": 9.0}, popularity={"base:gone": Popularity.HOT}, expected=("adapter:gone",)
    )
    assert place(_workers(2), {"base:0": a_component("base:0")}, demand, NOBODY, 0) == Residency({"w0": {}, "w1": {}})


def _as_held(residency: Residency) -> Holdings:
    """The view once each worker holds what it is to hold."""
    return Holdings(
        {
            worker: {tier: frozenset(each for each, at in tiers.items() if at is tier) for tier in Tier}
            for worker, tiers in residency.by_worker.items()
        }
    )
