"""The bound that no plan can beat, by what is known of the hardness of a trace's requests."""

from functools import cache

import numpy as np
import pytest

from planner.analysis.fluid_bound import fluid_of
from planner.catalog.model import Catalog
from planner.observation.observation import Observation
from replay.simulation.results.figures import figures_of
from replay.simulation.results.fluid_bound import fluid_bound
from replay.simulation.session import report_of, simulate
from replay.simulation.setup import Setup
from replay.traces.trace import Trace, of_arrivals
from streams.catalogs import measured
from tests.replay.simulation.runs import a_setup, arrivals

N = 400
AT_MS = np.arange(N) * 25.0  # 40 a second: two intervals of 5 s


@cache
def tiny() -> Catalog:
    return measured("tiny")


def on_two() -> Setup:
    return a_setup(catalog=tiny(), policy="joint", workers=2, slo_ms=2000.0, period_ms=5000.0)


def quality(hardness: np.ndarray | None, at_ms: np.ndarray = AT_MS) -> float:
    bound = fluid_bound(on_two(), at_ms, hardness)
    assert bound is not None
    return float(bound["quality"])


def graded(hardness: float) -> Trace:
    trace = of_arrivals(arrivals(12, N), "graded", "graded")
    trace.hardness[:] = hardness
    return trace


def test_a_trace_of_easy_requests_has_a_bound_that_a_good_policy_does_not_beat() -> None:
    trace = graded(0.05)
    runs = simulate(on_two(), trace, 1, lambda _: None)
    bound = report_of(trace, {"joint": runs})["fluid_bound"]
    assert 0.94 < figures_of(runs[0])["quality"] <= bound["quality"] + 0.002  # qualities are drawn: a standard error
    assert bound["note"].endswith("hardness as the trace has it")


def test_without_hardness_the_bound_is_that_of_requests_spread_evenly() -> None:
    unknown = fluid_bound(on_two(), AT_MS)
    assert unknown == fluid_bound(on_two(), AT_MS, np.full(N, np.nan))
    assert unknown is not None
    fluid = fluid_of(tiny(), Observation(now_ms=0, demand_rps=0.0, slo_ms=2000.0, hardness=(0.1,) * 10))
    assert fluid is not None
    assert unknown["quality"] == round(fluid.at(40.0, 2).quality, 6)
    assert "hardness" not in unknown["note"]
    assert quality(np.tile([0.1, 0.3, 0.6, 0.9], N // 4)) == pytest.approx(unknown["quality"], abs=1e-6)


def test_requests_without_hardness_among_others_count_as_spread_evenly() -> None:
    partly = np.full(N, 0.05)
    partly[::2] = np.nan
    evenly = np.tile([0.05, 0.1, 0.05, 0.3, 0.05, 0.6, 0.05, 0.9], N // 8)
    assert quality(partly) == pytest.approx(quality(evenly), abs=1e-9)
    assert quality(np.full(N, np.nan)) < quality(partly) < quality(np.full(N, 0.05))


def test_each_interval_has_its_own_hardness() -> None:
    easy_first = np.where(np.arange(N) < N // 2, 0.05, 0.6)
    apart = (quality(np.full(N, 0.05)) + quality(np.full(N, 0.6))) / 2
    assert quality(easy_first) == pytest.approx(apart, abs=1e-6)
    assert quality(easy_first) < quality(np.tile([0.05, 0.6], N // 2))  # mixed, the easy ones' workers serve the hard


def test_an_interval_without_requests_is_left_out() -> None:
    at_ms = np.concatenate([AT_MS, AT_MS + 60_000])
    assert quality(np.full(2 * N, 0.05), at_ms) == pytest.approx(quality(np.full(N, 0.05)), abs=1e-6)


def test_a_catalog_of_one_band_has_the_same_bound_whatever_the_hardness() -> None:
    setup = a_setup(catalog=measured("profile"), policy="joint", workers=2, slo_ms=2000.0)
    assert fluid_bound(setup, AT_MS, np.full(N, 0.05)) == fluid_bound(setup, AT_MS)
