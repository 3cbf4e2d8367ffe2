"""Arrivals from rates."""

import itertools
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.traces import InvalidTrace, constant, poisson
from replay.traces.rates import EVEN, EXPONENTIAL, POISSON, SPACINGS, Knot, along, within
from schemas.errors import Unknown


@given(st.floats(0.01, 10_000), st.integers(1, 300))
def test_constant_arrivals_start_at_0_and_are_evenly_spaced(rate: float, count: int) -> None:
    arrivals = constant(rate, count)
    assert len(arrivals) == count
    assert arrivals[0] == 0
    assert arrivals[-1] == pytest.approx((count - 1) * 1000 / rate)
    assert arrivals == sorted(arrivals)


def test_poisson_arrivals_have_the_rate_and_the_spread_of_exponential_gaps() -> None:
    arrivals = poisson(20, 20_000, seed=3)
    gaps = [b - a for a, b in itertools.pairwise([0.0, *arrivals])]
    assert min(gaps) >= 0
    assert statistics.mean(gaps) == pytest.approx(50, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(50, rel=0.05)


def test_poisson_arrivals_belong_to_their_seed() -> None:
    assert poisson(5, 50, seed=1) == poisson(5, 50, seed=1)
    assert poisson(5, 50, seed=1) != poisson(5, 50, seed=2)


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan"), 5e-324])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(InvalidTrace, match="above 0: got"):
        constant(rate, 10)
    with pytest.raises(InvalidTrace, match="above 0: got"):
        poisson(rate, 10, seed=1)


def test_a_trace_of_no_requests_is_refused() -> None:
    with pytest.raises(InvalidTrace, match="at least 1 request: got 0"):
        constant(1, 0)


rates = st.floats(0, 50)
curves = st.lists(st.tuples(st.floats(0, 20), rates, rates), min_size=1, max_size=5)


@settings(max_examples=30)
@given(curves)
def test_along_a_curve_the_nth_request_comes_when_the_integral_reaches_it(
    lines: list[tuple[float, float, float]],
) -> None:
    edges = [0.0, *itertools.accumulate(length for length, _, _ in lines)]
    pairs = zip(lines, itertools.pairwise(edges), strict=True)
    curve = [knot for (_, a, b), (from_s, to_s) in pairs for knot in (Knot(from_s, a), Knot(to_s, b))]
    arrivals = along(curve, EVEN, 0) / 1000
    at, rate = np.array([k.at_s for k in curve]), np.array([k.rate_rps for k in curve])
    area = np.concatenate([[0], np.cumsum(np.diff(at) * (rate[1:] + rate[:-1]) / 2)])
    for number, time in enumerate(arrivals.tolist()):
        line = max(int(np.searchsorted(at, time, side="left")) - 1, 0)
        passed = time - at[line]
        slope = (rate[line + 1] - rate[line]) / max(at[line + 1] - at[line], 1e-300)
        assert area[line] + rate[line] * passed + slope * passed**2 / 2 == pytest.approx(number + 0.5, abs=1e-6)
    assert len(arrivals) == int(area[-1] + 0.5)


def test_poisson_arrivals_along_a_ramp_rise_with_it() -> None:
    arrivals = along([Knot(0, 0), Knot(1000, 20)], POISSON, 1) / 1000
    assert len(arrivals) == pytest.approx(10_000, rel=0.05)
    first, second = (arrivals < 500).sum(), (arrivals >= 500).sum()
    assert second / first == pytest.approx(3, rel=0.1)
    assert (along([Knot(0, 0), Knot(1000, 20)], POISSON, 1) / 1000 == arrivals).all()


def test_a_curve_or_spacing_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidTrace, match="0 or more: got"):
        along([Knot(0, -1), Knot(1, 1)], POISSON, 0)
    with pytest.raises(InvalidTrace, match="more than 20,000,000"):
        along([Knot(0, 1e6), Knot(1000, 1e6)], POISSON, 0)
    with pytest.raises(Unknown, match="known are even, poisson"):
        along([Knot(0, 1), Knot(1, 1)], EXPONENTIAL, 0)
    with pytest.raises(Unknown, match="known are even, exponential, poisson"):
        within(np.ones(3), 1.0, "normal", 0)


@pytest.mark.parametrize(("spacing", "dispersion"), [(POISSON, 1.0), (EVEN, 0.0), (EXPONENTIAL, 0.6)])
def test_the_spacing_decides_how_bursty_an_interval_is(spacing: str, dispersion: float) -> None:
    arrivals = within(np.full(2000, 20.0), 1.0, spacing, 1)
    assert (np.diff(arrivals) >= 0).all()
    counts = np.histogram(arrivals, np.arange(0, 2_000_001, 1000))[0]
    assert counts.mean() == pytest.approx(20, rel=0.02)
    assert counts.var() / counts.mean() == pytest.approx(dispersion, abs=0.15)


def test_arrivals_in_their_intervals_belong_to_their_seed() -> None:
    assert (within(np.full(9, 5.0), 1.0, POISSON, 3) == within(np.full(9, 5.0), 1.0, POISSON, 3)).all()
    assert len(within(np.full(9, 500.0), 1.0, POISSON, 3)) != len(within(np.full(9, 500.0), 1.0, POISSON, 4))


@pytest.mark.parametrize("spacing", SPACINGS)
def test_a_limit_takes_the_first_of_all_requests_also_after_many_rows_that_round_to_none(spacing: str) -> None:
    counts = np.concatenate([np.full(1000, 0.3), np.full(1000, 20.0)])
    some, every = within(counts, 1.0, spacing, 1, limit=10), within(counts, 1.0, spacing, 1)
    assert len(some) == 10
    if spacing != POISSON:  # whose places are drawn after the counts of all rows
        assert some.tolist() == every[:10].tolist()
