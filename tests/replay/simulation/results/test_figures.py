"""The figures of a report."""

import pytest

from replay.reports.intervals import interval
from replay.simulation.results.figures import Figures, figures_of, over_seeds
from replay.simulation.results.run_metrics import FINENESS, Latencies
from tests.replay.simulation.runs import a_setup, arrivals, ran


def test_latencies_are_known_to_their_fineness() -> None:
    latencies = Latencies()
    for ms in range(1, 10_001):
        latencies.add(float(ms))
    for share in (0.05, 0.5, 0.95, 0.99):
        assert latencies.quantile(share) == pytest.approx(10_000 * share, rel=FINENESS - 1)
    assert latencies.mean() == 5000.5
    assert Latencies().quantile(0.5) is None


def test_several_seeds_give_means_and_intervals() -> None:
    reported = over_seeds([{"a": 1.0, "b": {"x": 2}, "c": None, "d": 4}, {"a": 2.0, "b": {"y": 2}, "c": 1.0, "d": 4}])
    assert reported["a"] == 1.5
    assert reported["b"] == {"x": 1, "y": 1}
    assert reported["c"] is None
    assert set(reported["interval"]) == {"a", "b.x", "b.y"}


def test_what_only_some_seeds_name_is_0_in_the_others_and_so_is_all_in_a_table_of_it() -> None:
    part = {"requests": 3, "latency_s": {"p50": 6.0}}
    first: Figures = {"by_tier": {"standard": part}}
    reported = over_seeds([first, {"by_tier": {"standard": part, "batch": part}, "scale": {"most": 6}}, {}])
    assert reported["by_tier"]["batch"] == {"requests": 1, "latency_s": {"p50": 2}}
    assert reported["scale"] == {"most": 2}
    assert "by_tier.batch.latency_s.p50" in reported["interval"]


def test_the_interval_is_student_s() -> None:
    low, high = interval([1.0, 2.0, 3.0])
    assert (low + high) / 2 == pytest.approx(2)
    assert high - 2 == pytest.approx(4.30265 / 3**0.5, abs=1e-4)


def test_figures_have_all_that_a_report_promises() -> None:
    figures = figures_of(ran(a_setup(policy="diffserve-static"), arrivals(20, 400)))
    assert {
        "requests", "completed", "violations", "violation_rate", "shed", "expired", "quality", "fid", "heavy_share",
        "latency_s", "utilization", "plans", "switches", "cost_worker_s",
    } <= figures.keys()  # fmt: skip
    assert {"p50", "p95", "p99"} <= figures["latency_s"].keys()
    assert figures["fid"] is None  # its catalog is on another scale
    assert figures["quality"] == pytest.approx(0.8 + 0.2 * figures["heavy_share"], abs=1e-3)
