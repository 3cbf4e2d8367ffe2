"""What clients are told of their waiting requests: places, and times until their ends."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from planner.catalog.model import Catalog
from planner.observation.lost import Begun
from planner.serving.routing.expecting import MAX_OPEN, Expectation, Expecting, call_ms
from schemas.messages import GenerateOptions, Plan, Route
from tests.builders import NOW_MS, a_cascade, a_catalog, a_plan, a_request

HEAVY = a_plan(routes=(Route(levels={"heavy": 1.0}),), cascades=())
MIXED = a_plan(routes=(Route(levels={"heavy": 1.0}, hardness_from=0.8), Route(levels={"light": 1.0}, hardness_to=0.8)))


@dataclasses.dataclass
class Fleet:
    """Workers by variant, all as slow."""

    workers: Mapping[str, int]
    slow: float = 1.0
    dead: str = ""  # the worker that does not live any more

    def serving_of(self, variant: str) -> int:
        return self.workers.get(variant, 0)

    def slowness(self, variant: str) -> float:
        del variant
        return self.slow

    def has_lost(self, begun: Begun) -> bool:
        return begun.worker_id == self.dead


TWO = Fleet({"heavy": 2, "light": 2})


def waiting(*names: str, catalog: Catalog | None = None, **fields: Any) -> Expecting:
    """These requests, none of which has begun."""
    expecting = Expecting(catalog or a_catalog())
    for name in names:
        expecting.on_request(a_request(request_id=name, **fields))
    return expecting


def told(expecting: Expecting, plan: Plan = HEAVY, fleet: Fleet = TWO, after_ms: float = 0) -> dict[str, Expectation]:
    return expecting.expected(plan, fleet, NOW_MS + after_ms)


def left(expecting: Expecting, plan: Plan = HEAVY, fleet: Fleet = TWO) -> list[float]:
    return [round(each.left_ms, 3) for each in told(expecting, plan, fleet).values()]


def test_requests_wait_for_the_worker_that_is_free_first_and_are_counted_in_the_order_in_which_they_came() -> None:
    expecting = waiting("a", "b", "c", "d", "e")
    assert left(expecting) == [200, 200, 400, 400, 600]
    assert [each.place for each in told(expecting).values()] == [1, 2, 3, 4, 5]
    assert left(expecting, fleet=Fleet({"heavy": 2}, slow=1.5)) == [300, 300, 600, 600, 900]


def test_what_a_worker_has_begun_with_is_nearer_to_its_end_and_keeps_the_worker_until_then() -> None:
    expecting = waiting("a", "b", "c", "d")
    expecting.on_started("a", "heavy", "w-1", NOW_MS - 150)
    expecting.on_started("b", "heavy", "w-2", NOW_MS - 50)
    assert told(expecting) == {"a": (0, 50), "b": (0, 150), "c": (1, 250), "d": (2, 350)}
    assert told(expecting, after_ms=100)["a"] == (0, 0)  # it is late: nobody knows how much
    expecting.on_ended("a", NOW_MS)
    assert told(expecting, after_ms=100) == {"b": (0, 50), "c": (1, 200), "d": (2, 250)}


def test_what_a_dead_worker_had_begun_waits_before_the_others_and_nothing_is_expected_of_it() -> None:
    expecting = waiting("a", "b", "c")
    expecting.on_started("a", "heavy", "w-1", NOW_MS - 150)
    expecting.on_started("b", "heavy", "w-2", NOW_MS - 50)
    assert told(expecting, fleet=Fleet({"heavy": 1}, dead="w-1")) == {"b": (0, 150), "c": (2, 550)}
    assert told(expecting, fleet=Fleet({}, dead="w-1")).keys() == {"b"}


def test_a_worker_takes_as_many_at_once_as_the_plan_says() -> None:
    plan = dataclasses.replace(HEAVY, batch={"heavy": 2})
    expecting = waiting("a", "b", "c", "d")
    for name in "ab":
        expecting.on_started(name, "heavy", "w-1", NOW_MS - 40)
    one = Fleet({"heavy": 1})
    assert told(expecting, plan, one) == {"a": (0, 200), "b": (0, 200), "c": (1, 400), "d": (2, 440)}
    assert left(expecting, HEAVY, one) == [200, 200, 400, 600]


def test_a_hardness_that_is_not_known_yet_is_reckoned_with_by_the_route_that_it_most_probably_meets() -> None:
    expecting = waiting("a", "b")
    one_each = Fleet({"heavy": 1, "light": 1})
    first, second = left(expecting, dataclasses.replace(MIXED, cascades=()), one_each)
    assert first == 20
    assert second == 0.8 * 20 + 20  # the first one is before it with a probability of .8


def test_an_image_that_will_rather_be_rejected_takes_as_much_longer_as_the_next_level_takes() -> None:
    judged = 1
    assert left(waiting("a"), a_plan(cascades=(a_cascade(threshold=0.2),))) == [20 + judged]
    assert left(waiting("a"), a_plan(cascades=(a_cascade(threshold=0.8),))) == [20 + judged + 200]
    refined = a_plan(cascades=(a_cascade(threshold=0.8, refine_from_step=20),))
    assert left(waiting("a"), refined) == [20 + judged + 200 * 5 / 25]
    assert left(waiting("a", quality="low"), a_plan()) == [20]  # that is never escalated


def test_what_may_be_escalated_is_reckoned_with_before_those_that_wait_for_the_next_level() -> None:
    expecting = waiting("a")
    expecting.on_request(a_request(request_id="b", quality="high"))
    assert told(expecting, a_plan(), Fleet({"heavy": 1, "light": 1}))["b"] == (1, 0.5 * 200 + 200)


def test_an_escalated_request_waits_again_behind_those_of_its_new_level() -> None:
    expecting = waiting("a")
    expecting.on_request(a_request(request_id="b", quality="high"))
    expecting.on_started("a", "light", "w-1", NOW_MS - 20)
    expecting.on_sent_on("a", "heavy", 5)
    assert told(expecting, a_plan(), Fleet({"heavy": 1, "light": 1})) == {"b": (1, 200), "a": (2, 200 + 200 * 20 / 25)}


def test_the_requests_own_options_and_the_model_that_it_names_count() -> None:
    assert left(waiting("a", options=GenerateOptions(n=2))) == [240]
    assert left(waiting("a", options=GenerateOptions(model="light"))) == [20]


def test_nothing_is_told_of_what_nobody_serves_the_router_would_turn_away_or_waits_for_a_gate() -> None:
    assert told(waiting("a"), fleet=Fleet({})) == {}
    assert left(waiting("a"), fleet=Fleet({"light": 1})) == [20]  # a cheaper level stands in
    assert told(waiting("a", deadline_ms=NOW_MS + 10)) == {}
    assert told(waiting("a", options=GenerateOptions(model="nobody's"))) == {}
    assert told(waiting("a", options=GenerateOptions(n=0))) == {}
    assert told(waiting("a"), a_plan(routes=(Route(levels={"light": 1.0}, hardness_from=0.5),))) == {}
    of_batch = waiting("a", tier="batch")
    assert told(of_batch) == {}
    of_batch.on_started("a", "heavy", "w-1", NOW_MS)
    assert told(of_batch) == {"a": (0, 200)}


def test_a_request_whose_result_was_read_before_it_does_not_wait() -> None:
    expecting = waiting()
    expecting.on_ended("a", NOW_MS)
    for name in "ab":
        expecting.on_request(a_request(request_id=name))
    assert list(told(expecting)) == ["b"]


def test_what_requests_take_besides_is_the_median_by_which_the_last_ones_took_longer_than_was_laid_out() -> None:
    expecting, ratios = waiting(), []
    for number, besides_ms in enumerate((30, 900, 50)):
        name = f"r-{number}"
        expecting.on_request(a_request(request_id=name))
        expecting.on_estimate_sent(name, told(expecting)[name], NOW_MS)
        ratios.append(expecting.on_ended(name, NOW_MS + 200 + besides_ms))
    assert ratios == [230 / 200, 1100 / 230, 250 / (200 + (30 + 900) / 2)]
    for name in ("served", "refused", "running"):
        expecting.on_request(a_request(request_id=name))
    expecting.on_started("running", "heavy", "w-1", NOW_MS)
    assert told(expecting) == {"running": (0, 200), "served": (1, 250), "refused": (2, 450)}
    expecting.on_estimate_sent("refused", told(expecting)["refused"], NOW_MS)
    assert expecting.on_ended("refused", NOW_MS + 5, is_served=False) is None
    assert told(expecting)["served"].left_ms == 250


def test_behind_so_many_requests_nothing_is_told() -> None:
    expecting = waiting(*(f"r-{number}" for number in range(MAX_OPEN + 5)))
    assert len(told(expecting)) == MAX_OPEN


@pytest.mark.parametrize(("jobs", "ms"), [(0.3, 60), (1, 200), (1.5, 220), (3, 320), (8, 720)])
def test_a_call_of_expected_jobs_lies_between_whole_ones(jobs: float, ms: float) -> None:
    assert round(call_ms(a_catalog().level("heavy"), jobs, 200), 3) == ms
