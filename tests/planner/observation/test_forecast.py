"""What the next seconds will bring: the papers' average, and a forecast that covers bursts."""

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.observation.forecast import EWMA_ALPHA, HORIZON_S, by_window, ewma, expected_rps, outlook, trend
from schemas.errors import Unknown
from tests.paths import SHARED

COUNTS = st.lists(st.integers(0, 200), max_size=30)
TRACES = SHARED / "data" / "traces"
HISTORY_S = 60


def test_an_average_weighs_the_newest_second_most() -> None:
    assert ewma([0, 0, 10]) > ewma([10, 0, 0])
    assert ewma([4, 4, 4]) == pytest.approx(4)
    assert ewma([1, 3], alpha=0.5) == pytest.approx((0.5 * 1 + 3) / 1.5)
    assert ewma([], EWMA_ALPHA) == 0


def test_nothing_is_forecast_from_nothing() -> None:
    assert trend([]) == (0, 0, 0, 0)
    assert expected_rps("last", []) == 0


def test_a_step_settles_within_two_periods_of_five_seconds() -> None:
    after = [10] * 60 + [30] * (2 * HORIZON_S)
    assert trend(after).mean_rps == pytest.approx(30, rel=0.1)


def test_a_ramp_is_followed_where_an_average_stays_behind() -> None:
    ramp = [2 * second for second in range(60)]
    truth = sum(2 * second for second in range(60, 60 + HORIZON_S)) / HORIZON_S
    assert abs(trend(ramp).mean_rps - truth) < 0.8 * abs(ewma(ramp) - truth)


def test_a_steady_stream_is_covered_with_less_margin_than_a_bursty_one_of_the_same_rate() -> None:
    dice = random.Random(1)
    bursty = [40 if dice.random() < 0.25 else 0 for _ in range(120)]
    steady, jumping = trend([10] * 120), trend(bursty)
    assert steady.burst_rps - steady.mean_rps < 0.5 * (jumping.burst_rps - jumping.mean_rps)


def test_one_lone_burst_does_not_widen_the_margin_for_ever() -> None:
    burst = [10] * 40 + [1000] + [10] * 40
    assert trend(burst).burst_rps < 2.5 * trend([10] * 81).burst_rps


@settings(max_examples=40)
@given(COUNTS, st.floats(0.5, 0.99), st.integers(1, 20))
def test_a_forecast_is_a_rate_and_a_higher_quantile_never_a_lower_one(
    counts: list[int], quantile: float, horizon_s: int
) -> None:
    low, high = (trend(counts, horizon_s, q) for q in (0.5, quantile))
    assert 0 <= low.burst_rps <= high.burst_rps < math.inf
    assert low.mean_rps == high.mean_rps


def test_an_unknown_forecast_names_the_known_ones() -> None:
    with pytest.raises(Unknown, match="ewma, last, trend"):
        expected_rps("ewna", [1])


def test_each_forecast_has_its_name() -> None:
    counts = [3, 5, 4, 8]
    assert expected_rps("last", counts) == 8
    assert expected_rps("ewma", counts) == ewma(counts)
    assert expected_rps("trend", counts, 5, 0.8) == trend(counts, 5, 0.8).burst_rps


Misses = tuple[float, float, float]


def missed(counts: Sequence[int], forecast: Callable[[Sequence[int]], float], every_s: int) -> Misses:
    """(share of horizons with more than was forecast, mean excess forecast, mean shortfall), both by mean demand."""
    ends = range(30, len(counts) - HORIZON_S, every_s)
    came = [sum(counts[end : end + HORIZON_S]) / HORIZON_S for end in ends]
    off = [forecast(counts[max(0, end - HISTORY_S) : end]) - real for end, real in zip(ends, came, strict=True)]
    over, short = sum(max(0.0, o) for o in off), sum(max(0.0, -o) for o in off)
    return sum(o < 0 for o in off) / len(off), over / sum(came), short / sum(came)


def scaled(factor: float) -> Callable[[Sequence[int]], float]:
    return lambda seen: factor * ewma(seen)


def compared(counts: Sequence[int], every_s: int) -> tuple[Misses, Misses]:
    """(trend, the average made larger until it forecasts as much too much)."""
    ours = missed(counts, lambda seen: trend(seen).burst_rps, every_s)
    theirs = [missed(counts, scaled(1 + at / 50), every_s) for at in range(31)]
    return ours, min(theirs, key=lambda found: abs(found[1] - ours[1]))


def test_with_the_same_excess_bursts_are_missed_by_less_than_with_a_multiple_of_the_average() -> None:
    dice = random.Random(7)
    calm = [sum(dice.random() < 0.4 for _ in range(50)) for _ in range(200)]
    bursty = [sum(dice.random() < (0.9 if second // 15 % 3 == 0 else 0.2) for _ in range(50)) for second in range(200)]
    ours, theirs = compared([*calm, *bursty], 3)
    assert ours[2] < theirs[2]


@pytest.mark.skipif(not TRACES.is_dir(), reason="the published traces are not beside this checkout")
def test_on_the_published_traces_fewer_horizons_fall_short_than_with_the_average_of_the_papers() -> None:
    shares = []
    for file in ("azure_functions_4to32qps", "twitter_2018_bursty"):
        times_ms = [float(line) for line in (TRACES / f"{file}.csv").read_text().split()[1:]]
        counts = [0] * (int(times_ms[-1] / 1000) + 1)
        for time_ms in times_ms:
            counts[int(time_ms / 1000)] += 1
        ours = missed(counts, lambda seen: trend(seen).burst_rps, 5)
        papers = missed(counts, scaled(1.05), 5)  # lambda of DiffServe 3.3
        shares.append((ours[0], papers[0]))
    assert all(ours < papers / 1.5 for ours, papers in shares), shares


def test_an_outlook_follows_a_rise_and_draws_on_no_fall() -> None:
    rising, falling = outlook([10 + 2 * s for s in range(30)], 10), outlook([70 - 2 * s for s in range(30)], 10)
    assert rising[-1] > 66
    assert falling[-1] >= 12
    assert outlook([20] * 30 + [2], 10)[-1] >= 18, "one second is no fall"
    assert len(outlook([], 5)) == 0


def test_an_outlook_is_of_what_came_until_then() -> None:
    assert outlook([5] * 20 + [90] * 5, 5)[:20] == pytest.approx(outlook([5] * 20, 5))


def test_an_ewma_by_window_smooths_rates_of_whole_planning_periods() -> None:
    """Source: Proteus's code. A single minute of a minute's periods is its mean."""
    counts = [7] * 2 + [2] * 5 + [4] * 5
    assert by_window(counts, 5) == pytest.approx((0.68 * 2 + 4) / 1.68)
    assert by_window(list(range(60)), 60) == pytest.approx(29.5)
    assert by_window([3, 5], 60) == 4
    assert by_window([], 5) == 0
    assert expected_rps("window", counts, 5) == by_window(counts, 5)
