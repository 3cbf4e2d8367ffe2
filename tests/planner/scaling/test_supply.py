"""Whom a supervisor starts and ends for what a plan asks."""

from planner.observation.workers import WorkerView
from planner.scaling.supply import Orders, backoff_ms, next_ids, orders
from schemas.messages import Plan, ScalePlan
from tests.builders import a_plan, a_worker


def plan(workers: int, warm: int = 0, **allocation: str) -> Plan:
    placed = {name.replace("_", "-"): variant for name, variant in allocation.items()}
    return a_plan(allocation=placed, scale=ScalePlan(targets={"heavy": workers}, warm=warm))


def live(**variants: str) -> dict[str, WorkerView]:
    return {name: a_worker(name, variant) for name, variant in ((n.replace("_", "-"), v) for n, v in variants.items())}


def test_what_is_missing_is_started_and_other_peoples_workers_count() -> None:
    assert orders(plan(3, warm=1), ["s-1"], {}) == Orders(start=3)
    assert orders(plan(3, warm=1), ["s-1"], live(s_1="heavy", w_9="heavy")) == Orders(start=2)
    assert orders(plan(3, s_1="heavy"), ["s-1", "s-2", "s-3"], {}) == Orders(), "two are starting"


def test_a_fleet_that_nobody_scales_stays_as_it_is() -> None:
    assert orders(None, ["s-1"], {}) == Orders()
    assert orders(a_plan(), ["s-1", "s-2"], live(s_1="", s_2="")) == Orders()


def test_only_who_has_no_variant_and_gets_none_is_ended() -> None:
    own, serving = ["s-1", "s-2", "s-3"], live(s_1="heavy", s_2="heavy", s_3="heavy")
    assert orders(plan(2, s_1="heavy", s_2="heavy"), own, serving) == Orders(), "s-3 drains"
    drained = serving | live(s_3="")
    assert orders(plan(2, s_1="heavy", s_2="heavy"), own, drained) == Orders(end=("s-3",))
    assert orders(plan(2, warm=1, s_1="heavy", s_2="heavy"), own, drained) == Orders(), "it is the pool"
    assert orders(plan(2, s_1="heavy", s_3="heavy"), own, drained) == Orders(), "it is on its way to heavy"
    assert orders(plan(0), ["s-1"], live(w_9="")) == Orders(end=("s-1",)), "nobody ends what is not theirs"


def test_who_is_still_starting_is_ended_before_one_of_the_pool() -> None:
    assert orders(plan(1), ["s-1", "s-2", "s-3"], live(s_1="", s_3="")).end == ("s-2", "s-3")


def test_deaths_in_a_row_are_waited_after_longer_and_longer() -> None:
    assert [backoff_ms(deaths) for deaths in (1, 2, 3, 100)] == [500, 1000, 2000, 60_000]


def test_new_workers_get_the_free_numbers() -> None:
    assert next_ids(3, {"s-2", "x-1"}, "s") == ["s-1", "s-3", "s-4"]
