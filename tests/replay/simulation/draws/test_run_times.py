"""Run times that vary: around their profile, as it measured them, and not otherwise."""

import statistics
from typing import Any

import numpy as np
import pytest

from planner.catalog.measured import Measured
from replay.simulation.draws.run_times import DRAWS, MEASURED, UNKNOWN, RunTimes, Variation, measured_variation
from replay.simulation.results.figures import figures_of
from replay.simulation.run import Simulation
from tests.builders import a_catalog
from tests.replay.simulation.runs import SERVICE_MS, a_setup, one_level

APART = np.arange(0.0, 100_000.0, 200.0)  # nobody waits


def factors(variation: Variation, images: int = 1) -> list[float]:
    times = RunTimes(variation, 3)
    return [times.call_factor("light", images) for _ in range(DRAWS - 1)]


def p(rank: str, **variation: Any) -> float:
    setup = a_setup(catalog=one_level(), policy="clipper-light", variation=Variation(**variation))
    latency_s = figures_of(Simulation(setup, APART).run())["latency_s"]
    return 1000 * float(latency_s[rank])


def test_calls_take_their_profiled_time_on_average_and_vary_as_measured() -> None:
    drawn = factors(Variation(run_cv={"light": {1: 0.3}}))
    assert statistics.fmean(drawn) == pytest.approx(1.0, abs=0.02)
    assert statistics.stdev(drawn) == pytest.approx(0.3, rel=0.05)
    assert min(drawn) > 0


def test_the_spread_is_that_of_the_call_s_size() -> None:
    variation = Variation(run_cv={"light": {1: 0.5, 4: 0.1}})
    spreads = [statistics.stdev(factors(variation, images)) for images in (1, 3, 4, 8)]
    assert spreads == pytest.approx([0.5, 0.5, 0.1, 0.1], rel=0.1)


def test_stragglers_are_the_share_that_was_asked_for() -> None:
    drawn = factors(Variation(straggler_share=0.02, straggler_factor=5.0))
    assert set(drawn) == {1.0, 5.0}
    assert drawn.count(5.0) / len(drawn) == pytest.approx(0.02, abs=0.008)


def test_simulated_latencies_vary_with_run_times() -> None:
    assert p("p99") == pytest.approx(SERVICE_MS, rel=0.01)
    assert p("p99", run_cv={"light": {1: 0.3}}) > 1.5 * SERVICE_MS
    assert p("p99", straggler_share=0.05, straggler_factor=4.0) == pytest.approx(4 * SERVICE_MS, rel=0.01)
    assert p("p50", straggler_share=0.05, straggler_factor=4.0) == pytest.approx(SERVICE_MS, rel=0.01)


def test_a_slow_worker_s_calls_take_longer_and_dispatch_does_not_know() -> None:
    setup = a_setup(catalog=one_level(), policy="clipper-light", workers=2, variation=Variation(speeds=(1.0, 0.5)))
    latency_s = figures_of(Simulation(setup, APART).run())["latency_s"]
    assert 1000 * latency_s["mean"] == pytest.approx(1.5 * SERVICE_MS, rel=0.05)


def test_a_run_with_its_seed_is_the_same_run() -> None:
    variation = {"run_cv": {"light": {1: 0.3}}, "straggler_share": 0.01, "straggler_factor": 3.0, "load_cv": 0.5}
    assert p("mean", **variation) == p("mean", **variation)


def test_load_times_vary_around_the_catalog_s() -> None:
    times = RunTimes(Variation(load_cv=0.88), 3)
    loads = [times.load_factor() for _ in range(DRAWS)]
    assert statistics.fmean(loads) == pytest.approx(1.0, abs=0.05)
    assert statistics.stdev(loads) == pytest.approx(0.88, rel=0.15)
    assert RunTimes(Variation(), 3).load_factor() == 1.0


def test_what_nobody_measured_does_not_vary_and_is_told() -> None:
    plain = measured_variation(a_catalog())
    assert (plain.run_cv, plain.origin) == ({}, UNKNOWN)
    known = a_catalog(measured=Measured(bounds=(0.0, 1.0), quality={}, run_cv={"light": {1: 0.1}}))
    assert measured_variation(known).origin == MEASURED
