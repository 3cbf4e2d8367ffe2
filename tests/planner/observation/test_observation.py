"""What the planner sees: arrivals by the second, clocks that jump back."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.observation.observation import (
    BINS,
    InvalidObservation,
    Queue,
    Served,
    class_histograms,
    class_shares,
    counts_per_second,
    demand_rps,
    hardness_shares,
    queue_wait_ms,
)
from planner.observation.reuse import ObservedHits
from planner.serving.deadlines import steady_ms
from tests.builders import NO_ANSWER, NOW_MS, a_worker, an_observation, lookups


def test_demand_is_the_arrivals_of_the_window_a_second() -> None:
    arrivals = [NOW_MS - 10_000, NOW_MS - 9_999, NOW_MS - 1, NOW_MS, NOW_MS + 1]
    assert demand_rps(arrivals, NOW_MS, 10_000) == 0.3
    assert demand_rps([], NOW_MS, 10_000) == 0


@given(st.lists(st.floats(0, 1)))
def test_hardness_shares_sum_to_one_over_ten_bins_or_are_unknown(values: list[float]) -> None:
    shares = hardness_shares(values)
    assert len(shares) == (BINS if values else 0)
    assert abs(sum(shares) - bool(values)) < 1e-9


def test_hardness_one_belongs_to_the_last_bin() -> None:
    shares = hardness_shares([1.0, 0.95, 0.0, 0.1])
    assert shares[-1] == max(shares)
    assert sum(share > min(shares) for share in shares) == 3


def test_a_few_prompts_do_not_make_all_of_them_easy_and_many_do() -> None:
    assert hardness_shares([0.0])[-1] == pytest.approx(0.1, abs=0.01)
    assert hardness_shares([0.0] * 1000)[0] == pytest.approx(1.0, abs=0.02)


def test_class_shares_are_by_name() -> None:
    assert list(class_shares(["b", "a", "b", "b"]).items()) == [("a", 0.25), ("b", 0.75)]
    assert class_shares([]) == {}


def test_a_hardness_that_is_no_number_in_range_is_left_out() -> None:
    assert hardness_shares([0.05, math.nan, 1.5, -0.1, math.inf]) == hardness_shares([0.05])
    assert hardness_shares([math.nan]) == ()


def test_a_class_that_nobody_knows_is_kept_as_it_was_seen() -> None:
    assert class_shares(["light", "", "gone"]) == {"": 1 / 3, "gone": 1 / 3, "light": 1 / 3}


def test_each_strategy_has_its_histogram_and_what_it_did_not_classify_counts() -> None:
    prompts = [{"models": "light", "reuse": "heavy~k4"}, {"models": "heavy"}]
    assert class_histograms(prompts) == {
        "models": {"heavy": 0.5, "light": 0.5}, "reuse": {"": 0.5, "heavy~k4": 0.5},
    }  # fmt: skip
    assert class_histograms([]) == {}


def test_a_policy_plans_for_the_forecast_where_there_is_one() -> None:
    assert an_observation(demand_rps=10.0).planning_rps == 10
    assert an_observation(demand_rps=10.0, forecast_rps=0.0).planning_rps == 0


def test_the_wait_in_a_queue_is_what_waits_over_what_arrives() -> None:
    seen = an_observation(queues=(Queue("light", 40, 8.0), Queue("heavy", 3, 0.0)))
    assert queue_wait_ms(seen, "light") == 5000  # DiffServe 3.3; by jobs in flight it would be about a second
    assert queue_wait_ms(seen, "heavy") == 0
    assert queue_wait_ms(seen, "middle") == 0


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"demand_rps": math.nan}, "demand_rps of an observation must be a number of 0 or more: got nan"),
        ({"demand_rps": -1.0}, "demand_rps"),
        ({"forecast_rps": math.inf}, "forecast_rps"),
        ({"slo_ms": -5.0}, "slo_ms"),
        ({"hardness": (0.5, 0.4)}, "hardness of an observation must be shares that sum to 1"),
        ({"classes": {"models": {}, "reuse": {"light": 1.5, "heavy": -0.5}}}, "classes of reuse"),
        ({"classes": {"models": {"light": math.nan}}}, "classes of models"),
        ({"reuse": lookups(math.nan)}, "reuse of an observation must be shares in"),
        ({"reuse": lookups(unanswered=1.5)}, "reuse"),
        ({"reuse": lookups(hits={"heavy~k4": ObservedHits(10, -0.1)})}, "reuse"),
        ({"tiers": {"batch": 0.5}}, "tiers of an observation must be shares that sum to 1"),
        ({"workers": (a_worker(remaining_ms=math.nan),)}, "remaining_ms of w-1"),
        ({"workers": (a_worker(remaining_ms=-1.0),)}, "remaining_ms of w-1"),
        ({"queues": (Queue("light", math.nan, 1.0),)}, "queue of light"),
        ({"queues": (Queue("light", 1.0, -1.0),)}, "queue of light"),
        ({"served": Served(10, in_time=1.5)}, "served"),
        ({"served": Served(-1)}, "served"),
    ],
)
def test_an_observation_of_impossible_numbers_is_refused(changes: dict[str, object], reported: str) -> None:
    with pytest.raises(InvalidObservation, match=reported):
        an_observation(**changes)


def test_a_store_that_does_not_answer_is_a_possible_observation() -> None:
    assert an_observation(reuse=NO_ANSWER).reuse == NO_ANSWER


def test_arrivals_are_counted_by_the_second_that_ends_with_now() -> None:
    arrivals = [NOW_MS - 3000, NOW_MS - 2999, NOW_MS - 1000, NOW_MS - 999, NOW_MS, NOW_MS + 1]
    assert counts_per_second(arrivals, NOW_MS, 3) == (1, 1, 2)
    assert counts_per_second([], NOW_MS, 2) == (0, 0)


@settings(max_examples=40)
@given(st.lists(st.integers(-70_000, 5_000), max_size=20), st.integers(1, 60))
def test_every_arrival_of_the_window_is_counted_once(offsets: list[int], seconds: int) -> None:
    counts = counts_per_second([NOW_MS + offset for offset in offsets], NOW_MS, seconds)
    assert len(counts) == seconds
    assert sum(counts) == sum(-1000 * seconds < offset <= 0 for offset in offsets)


def test_time_stands_still_while_a_clock_makes_up_for_a_small_jump_back() -> None:
    assert steady_ms(NOW_MS - 400, NOW_MS, most_ms=30_000) == NOW_MS
    assert steady_ms(NOW_MS + 1, NOW_MS, most_ms=30_000) == NOW_MS + 1


def test_after_a_long_jump_back_time_begins_anew_and_what_was_counted_lies_in_its_future() -> None:
    now = steady_ms(NOW_MS - 3_600_000, NOW_MS, most_ms=30_000)
    assert now == NOW_MS - 3_600_000
    assert counts_per_second([NOW_MS - 5, now - 5], now, 1) == (1,)
