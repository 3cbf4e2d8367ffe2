"""What a run did over time."""

import math

import numpy as np
import pytest

from planner.catalog.curves import CascadeCurves, SharePoint
from replay.reports.intervals import interval
from replay.simulation.results import series
from replay.simulation.results.mixtures import heavy_share
from replay.simulation.results.timeline import Timeline
from schemas.messages import Expected, Plan, Route
from streams import catalogs
from tests.builders import a_catalog
from tests.replay.simulation.runs import a_setup, arrivals, down, ran, up

MINUTE = Timeline(np.array([0.0, 59_999.0]))  # 300 intervals of 0.2 s


def a_plan(at_ms: int, demand_rps: float, utilization: float) -> Plan:
    expected = Expected(demand_rps=demand_rps, utilization=utilization, heavy_share=0.5)
    return Plan(
        version=1, policy="p", strategy="models", created_ms=at_ms, reason="r", routes=(Route(levels={"light": 1.0}),),
        expected=expected,
    )  # fmt: skip


def test_the_series_of_a_run_add_up_to_its_figures() -> None:
    run = ran(a_setup(workers=2, slo_ms=120.0, outages=(down(4, "w-1"), up(9, "w-1"))), arrivals(30, 600))
    reported = series.series_of(run)
    assert set(reported) == {
        "violation_rate", "heavy_share", "quality", "queue_s", "capacity_rps", "plan_changes", "cost_worker_s",
    }  # fmt: skip
    arrived = run.timeline.arrived
    assert arrived.sum() == 600
    assert np.nansum(reported["violation_rate"] * arrived) == pytest.approx(run.tally.violations)
    assert run.tally.violations > 0
    assert np.nansum(reported["cost_worker_s"]) == pytest.approx(
        2 * run.timeline.count * run.timeline.width_ms / 1000 - 5
    )
    assert reported["plan_changes"].sum() == len(run.plans) - 1  # the first came before 0
    assert np.nanmax(reported["queue_s"]) > 0


def test_on_the_scale_of_fid_the_heavy_share_is_of_the_same_stretches_as_the_quality() -> None:
    run = ran(a_setup(catalog=catalogs.load("diffserve-sdturbo"), slo_ms=5000.0), arrivals(10, 600))
    heavy = series.series_of(run)["heavy_share"]
    spans = [heavy_share(span, run.setup.catalog.best().name) for span in run.tally.spans]
    assert len(set(heavy[~np.isnan(heavy)].tolist())) < 2 * len(spans) + 1 < run.timeline.count
    assert np.nanmin(heavy) >= min(spans)
    assert np.nanmax(heavy) <= max(spans)


def test_capacity_is_the_demand_at_which_the_busiest_variant_never_rests() -> None:
    assert series.capacity_rps(a_plan(0, 12.0, 0.5)) == 24.0
    assert math.isnan(series.capacity_rps(a_plan(0, 0.0, 0.0)))


def test_the_capacity_of_plans_that_share_an_interval_is_weighted_by_their_time() -> None:
    reported = series.of_plans([a_plan(-1000, 10, 1), a_plan(150, 20, 1), a_plan(400, 5, 1)], MINUTE)
    assert reported["capacity_rps"][:4] == pytest.approx([12.5, 20, 5, 5])
    assert reported["plan_changes"][:4].tolist() == [1, 0, 1, 0]


def test_a_plan_that_expects_nothing_has_no_capacity() -> None:
    reported = series.of_plans([a_plan(-1000, 0, 0), a_plan(200, 8, 0.5)], MINUTE)
    assert math.isnan(reported["capacity_rps"][0])
    assert reported["capacity_rps"][1] == 16


def test_workers_cost_while_they_are_alive() -> None:
    reported = series.of_fleet([(0.0, 1e9), (100.0, 500.0)], MINUTE)
    assert reported["cost_worker_s"][:4] == pytest.approx([0.3, 0.4, 0.3, 0.2])


def test_the_quality_of_a_stretch_is_reported_for_every_interval_that_it_touches() -> None:
    hour = Timeline(np.array([0.0, 3_599_000.0]))  # of 20 s each
    reported = series.of_spans([(20_000.0, 0.5), (80_000.0, 0.9), (100_000.0, None)], hour)
    assert reported[0] == 0.5
    assert math.isnan(reported[1])  # nothing was answered between 20 and 60 s
    assert reported[3] == 0.9
    assert math.isnan(reported[4])
    fine = series.of_spans([(20_000.0, 0.5), (40_000.0, 0.7)], MINUTE)
    assert fine[[0, 99, 100, 199]].tolist() == [0.5, 0.5, 0.7, 0.7]
    wide = series.of_spans([(20_000.0, 0.5), (40_000.0, 0.7)], Timeline(np.array([0.0, 7_000_000.0])))
    assert wide[0] == pytest.approx(0.6)


def test_on_the_scale_of_fid_quality_is_that_of_mixtures() -> None:
    curves = CascadeCurves(judged=(SharePoint(0.0, -30.0), SharePoint(1.0, -20.0)), random=())
    catalog = a_catalog(scale="fid", curves={a_catalog().cascades[0].key: curves})
    reported = series.series_of(ran(a_setup(catalog=catalog), arrivals(20, 400)))
    assert not np.isnan(reported["quality"]).all()


def test_over_seeds_a_point_has_the_interval_of_its_mean() -> None:
    runs = [{"x": np.array([1.0, np.nan, 7.0])}, {"x": np.array([2.0, 5.0, 7.0])}, {"x": np.array([3.0, np.nan, 7.0])}]
    reported = series.over_seeds(runs)["x"]
    low, high = interval([1.0, 2.0, 3.0])
    assert reported["mean"] == [2.0, 5.0, 7.0]
    assert reported["half"] == [pytest.approx((high - low) / 2, rel=1e-4), None, 0.0]
    assert series.over_seeds(runs[:1])["x"] == {"mean": [1.0, None, 7.0]}
