"""Tests of what a worker does about `Plan.residency`."""

import pytest

from planner.components.component import Component, Tier
from planner.components.eviction import ReuseEstimate
from planner.components.residency import Load, ResidencyLogic
from planner.components.tiers import Budgets, WorkerTiers
from schemas.messages import ResidencyPlan

KNOWN = ("base:a", "base:b", "adapter:x", "adapter:y", "control:c")


def plan(**workers: dict[str, str]) -> ResidencyPlan:
    return ResidencyPlan(workers={name.replace("_", "-"): listed for name, listed in workers.items()})


def tiers_of(device: int = 40) -> WorkerTiers:
    components = {
        id_: Component(
            id=id_, bytes=10, load_ms={Tier.REMOTE: 100.0, Tier.VOLUME: 50.0, Tier.HOST: 10.0, Tier.DEVICE: 0.0}
        )
        for id_ in KNOWN
    }
    return WorkerTiers(components, Budgets(volume=1000, host=1000, device=device), ReuseEstimate(1e6, 1e6))


def test_an_idle_worker_loads_for_the_device_first_and_bases_before_what_attaches_to_them() -> None:
    logic, tiers = ResidencyLogic("w-0", KNOWN), tiers_of()
    logic.follow(
        plan(
            w_0={
                "adapter:x": "device",
                "base:b": "host",
                "base:a": "device",
                "control:c": "device",
                "adapter:y": "host",
            }
        )
    )
    order = []
    while (load := logic.next_load(tiers, 1.0)) is not None:
        order.append(load)
        tiers.prefetch(load.id, load.tier, 0.0)
    assert order == [
        Load("base:a", Tier.DEVICE),
        Load("adapter:x", Tier.DEVICE),
        Load("control:c", Tier.DEVICE),
        Load("base:b", Tier.HOST),
        Load("adapter:y", Tier.HOST),
    ]


def test_a_listed_component_is_pinned_in_its_own_tier_until_a_plan_lists_it_no_more() -> None:
    logic = ResidencyLogic("w-0", KNOWN)
    assert logic.follow(plan(w_0={"base:a": "device", "adapter:x": "host"}))
    assert logic.pinned == {("base:a", Tier.DEVICE), ("adapter:x", Tier.HOST)}
    assert logic.follow(plan(w_0={"base:a": "device"}, w_1={"base:b": "device"}))
    assert logic.pinned == {("base:a", Tier.DEVICE)}
    assert logic.follow(None)
    assert logic.pinned == frozenset()
    assert logic.next_load(tiers_of(), 1.0) is None


def test_what_is_fused_from_known_parts_is_pinned_and_never_loaded() -> None:
    logic, tiers = ResidencyLogic("w-0", KNOWN), tiers_of()
    logic.follow(plan(w_0={"fused:a+x@1": "device", "fused:a+z@1": "device", "fused:a+x": "device"}))
    assert logic.pinned == {("fused:a+x@1", Tier.DEVICE)}
    assert logic.unknown == 2
    assert logic.next_load(tiers, 1.0) is None


def test_what_lies_nearer_than_it_is_listed_stays_where_it_is() -> None:
    logic, tiers = ResidencyLogic("w-0", KNOWN), tiers_of()
    tiers.use(["base:a"], 0.0)
    logic.follow(plan(w_0={"base:a": "volume"}))
    assert logic.next_load(tiers, 1.0) is None


def test_a_component_that_its_tier_does_not_admit_is_loaded_to_the_nearest_that_does() -> None:
    logic, tiers = ResidencyLogic("w-0", KNOWN), tiers_of(device=10)
    logic.follow(plan(w_0={"base:a": "device", "base:b": "device"}))
    tiers.pinned = logic.pinned
    tiers.prefetch("base:a", Tier.DEVICE, 0.0)
    assert logic.next_load(tiers, 1.0) == Load("base:b", Tier.HOST)
    tiers.prefetch("base:b", Tier.HOST, 1.0)
    assert logic.next_load(tiers, 1.0) is None
    tiers.evict("base:a", Tier.DEVICE)
    assert logic.next_load(tiers, 1.0) == Load("base:a", Tier.DEVICE)


def test_a_load_that_failed_is_tried_again_only_when_the_plan_lists_something_else() -> None:
    logic, tiers, listed = ResidencyLogic("w-0", KNOWN), tiers_of(), {"base:a": "device"}
    logic.follow(plan(w_0=listed))
    load = logic.next_load(tiers, 1.0)
    assert load == Load("base:a", Tier.DEVICE)
    logic.on_refused(load)
    assert logic.next_load(tiers, 1.0) is None
    assert not logic.follow(plan(w_0=dict(listed)))
    assert logic.next_load(tiers, 1.0) is None
    assert logic.follow(plan(w_0=listed | {"adapter:x": "device"}))
    assert logic.next_load(tiers, 1.0) == load


def test_what_a_request_displaced_is_loaded_again_only_once_it_is_worth_more_than_what_requests_use() -> None:
    logic, tiers = ResidencyLogic("w-0", KNOWN), tiers_of(device=10)
    logic.follow(plan(w_0={"base:a": "device"}))
    tiers.pinned = logic.pinned
    for at_ms in (0.0, 1000.0, 2000.0):
        tiers.use(["base:a"], at_ms)
    tiers.use(["base:b"], 600_000.0)
    assert logic.next_load(tiers, 600_000.0) is None, "requests use the other one now"
    assert logic.next_load(tiers, 1_600_000.0) == Load("base:a", Tier.DEVICE), "no more"
    tiers.use(["base:a"], 600_001.0)
    tiers.prefetch("base:b", Tier.DEVICE, 600_002.0)
    assert tiers.tier_of("base:a") is Tier.DEVICE, "a request brought it back: it is pinned again"


@pytest.mark.parametrize(("id_", "tier"), [("base:new", "device"), ("base:a", "tape"), ("nonsense", "device")])
def test_what_the_worker_does_not_know_is_passed_over_and_counted(id_: str, tier: str) -> None:
    logic = ResidencyLogic("w-0", KNOWN)
    logic.follow(plan(w_0={id_: tier, "base:b": "device"}))
    assert logic.unknown == 1
    assert logic.next_load(tiers_of(), 1.0) == Load("base:b", Tier.DEVICE)
