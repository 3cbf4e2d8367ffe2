"""No fleet finds more components on its devices than the bound says, and a clairvoyant one comes near it."""

import itertools

import numpy as np
import pytest

from planner.components.component import Component, Tier
from planner.components.eviction import ReuseEstimate, lru
from planner.components.tiers import Budgets, WorkerTiers
from replay.bench.hits_bound import max_hit_rate

KNOWN = {
    id_: Component(id=id_, bytes=size, load_ms={Tier.REMOTE: 100.0, Tier.DEVICE: 0.0})
    for id_, size in {"base:a": 10, "base:b": 10, "base:c": 10, "adapter:x": 1, "adapter:y": 4}.items()
}


def bases(names: str) -> list[list[str]]:
    return [[f"base:{name}"] for name in names]


@pytest.mark.parametrize(
    ("names", "devices", "hits"),
    [
        ("abab", 1, 0),  # each evicts the other
        ("abab", 2, 2),  # all but the first of each
        ("abcabc", 2, 2),  # LRU has none; who knows what comes keeps the first for its return, then another
        ("aaaa", 1, 3),
        ("abc", 3, 0),  # nothing comes again
        ("", 1, 0),
    ],
)
def test_of_equal_bases_the_bound_is_what_belady_counts_by_hand(names: str, devices: int, hits: int) -> None:
    assert max_hit_rate(bases(names), KNOWN, devices, 10) * max(1, len(names)) == pytest.approx(hits)


def test_of_large_components_a_device_holds_one_whatever_room_is_left_on_all_together() -> None:
    assert max_hit_rate(bases("abcabc"), KNOWN, 2, 15) * 6 == pytest.approx(2)  # 30 bytes in all would hold three
    assert max_hit_rate(bases("abcabc"), KNOWN, 2, 20) * 6 == pytest.approx(3)


def test_what_the_request_itself_needs_leaves_no_room_for_others() -> None:
    held = [["adapter:x"], ["base:a", "adapter:y"], ["adapter:x"]]
    assert max_hit_rate(held, KNOWN, 1, 15) == pytest.approx(1 / 4)
    assert max_hit_rate(held, KNOWN, 1, 14) == 0.0


def test_a_request_larger_than_all_devices_is_an_error() -> None:
    with pytest.raises(ValueError, match="more than 1 devices of 12 bytes"):
        max_hit_rate([["base:a", "adapter:y"], ["base:a"]], KNOWN, 1, 12)


def test_no_fleet_has_more_hits_than_the_bound() -> None:
    """LRU and worth-blind dispatch of skewed requests, on 1 to 4 devices: the bound is above each, and not 1."""
    for seed, devices in itertools.product(range(5), (1, 2, 4)):
        dice = np.random.default_rng(seed)
        requests = [
            [f"base:{'abc'[min(2, dice.geometric(0.6) - 1)]}", *(["adapter:x", "adapter:y"][: dice.integers(3)])]
            for _ in range(60)
        ]
        budgets = Budgets(volume=0, host=0, device=16)
        fleet = [WorkerTiers(KNOWN, budgets, ReuseEstimate(), lru) for _ in range(devices)]
        for number, ids in enumerate(requests):
            min(fleet, key=lambda tiers: tiers.lacking_ms(ids)).use(ids, float(number))
        hits = sum(tiers.hits[Tier.DEVICE] for tiers in fleet)
        lookups = sum(len(ids) for ids in requests)
        assert hits / lookups <= max_hit_rate(requests, KNOWN, devices, 16) + 1e-9 < 1
