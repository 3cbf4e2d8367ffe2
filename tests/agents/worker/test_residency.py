"""An idle worker brings what its plan lists to its tiers, pins it, and lets no job wait for that."""

import threading

from agents.worker.residency import Prefetcher
from planner.components.component import Tier
from planner.components.eviction import lru, utility
from schemas.messages import Plan, ResidencyPlan
from streams import metrics
from tests.agents.components.build import Shop, failing
from tests.builders import a_plan


def listing(**components: str) -> Plan:
    """A plan that lists components for worker w-1: base_a="device"."""
    listed = {name.replace("_", ":"): tier for name, tier in components.items()}
    return a_plan(residency=ResidencyPlan(workers={"w-1": listed, "w-2": {"base:b": "device"}}))


class Office:
    """A prefetcher of worker w-1, its plan, and whether it is idle."""

    def __init__(self, shop: Shop, plan: Plan | None) -> None:
        self.plan, self.is_idle = plan, True
        self.prefetcher = Prefetcher("w-1", shop.store, lambda: self.plan, lambda: self.is_idle)

    def steps(self) -> int:
        """Go on while there is more; return how many steps did something."""
        done = 0
        while self.prefetcher.step():
            done += 1
            assert done < 50
        return done


def counted(outcome: str) -> float:
    return metrics.PREFETCHES.labels(outcome)._value.get()  # type: ignore[no-any-return]


def test_what_is_listed_comes_to_its_tier_and_what_is_listed_for_others_does_not() -> None:
    shop = Shop("base:a", "base:b", "adapter:x", "adapter:y")
    office = Office(shop, listing(base_a="device", adapter_x="host", adapter_y="volume"))
    before = counted("loaded")
    assert office.steps() == 3
    assert counted("loaded") == before + 3
    assert [shop.store.tier_of(each) for each in ("base:a", "adapter:x", "adapter:y", "base:b")] == [
        Tier.DEVICE,
        Tier.HOST,
        Tier.VOLUME,
        Tier.REMOTE,
    ]
    assert office.steps() == 0
    assert not shop.store.report().hits


def test_a_worker_with_a_job_prefetches_nothing_and_goes_on_when_it_is_idle_again() -> None:
    shop = Shop("base:a")
    office = Office(shop, listing(base_a="device"))
    office.is_idle = False
    assert office.steps() == 0
    office.is_idle = True
    with shop.store.call():
        assert office.steps() == 0
    assert not shop.shelf.asked
    assert office.steps() == 1


def test_what_is_pinned_stays_when_requests_ask_for_others_until_the_plan_lists_it_no_more() -> None:
    shop = Shop("base:a", "base:b", "base:c", device=20)
    office = Office(shop, listing(base_a="device"))
    office.steps()
    for base in ("base:b", "base:c", "base:b", "base:c"):
        shop.store.bring([base])
    assert "base:a" in shop.parts.there
    office.plan = listing()
    office.steps()
    for base in ("base:b", "base:c"):
        shop.store.bring([base])
    assert "base:a" not in shop.parts.there


def test_a_prefetch_that_fails_is_counted_once_and_the_next_component_comes() -> None:
    shop = Shop("base:a", "adapter:x")
    shop.shelf.before = failing("fetch base:a")
    office = Office(shop, listing(base_a="device", adapter_x="host"))
    before = counted("failed")
    assert office.steps() == 2
    assert counted("failed") == before + 1
    assert shop.shelf.asked.count("fetch base:a") == 1
    assert shop.store.tier_of("adapter:x") is Tier.HOST
    shop.store.bring(["adapter:x"])  # and it serves


def test_components_that_this_worker_does_not_know_are_passed_over_and_counted() -> None:
    before = counted("unknown")
    assert Office(Shop("base:a"), listing(base_new="device", base_a="nowhere")).steps() == 0
    assert counted("unknown") == before + 2


def test_a_job_that_comes_during_a_prefetch_is_served_before_it_ends() -> None:
    shop, is_fetching, may_go_on = Shop("base:a", "base:b"), threading.Event(), threading.Event()

    def before(asked: str) -> None:
        if asked == "fetch base:a":
            is_fetching.set()
            assert may_go_on.wait(30)

    shop.shelf.before = before
    office = Office(shop, listing(base_a="device"))
    office.prefetcher.start()
    try:
        assert is_fetching.wait(30)
        with shop.store.call():
            shop.store.bring(["base:b"])
        assert shop.parts.there == {"base:b"}
    finally:
        may_go_on.set()
        office.prefetcher.close()
    assert shop.parts.there == {"base:a", "base:b"}


def test_an_error_of_the_store_ends_no_thread() -> None:
    shop = Shop("base:a")
    failures, has_failed = [0], threading.Event()

    def before(asked: str) -> None:
        failures[0] += 1
        has_failed.set()
        raise RuntimeError(asked)

    shop.shelf.before = before
    office = Office(shop, listing(base_a="device"))
    office.prefetcher.start()
    assert has_failed.wait(30)
    office.prefetcher.close()
    assert failures[0] >= 1


def test_the_plan_decides_whether_worth_or_the_last_use_says_who_leaves() -> None:
    shop = Shop("base:a")
    office = Office(shop, listing(base_a="device"))
    for plan, score in ((office.plan, utility), (a_plan(), lru), (None, lru)):
        office.plan = plan
        office.steps()
        assert shop.store._tiers.score is score
