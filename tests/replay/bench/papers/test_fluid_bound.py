"""What no plan can beat."""

import numpy as np
import pytest

from planner.catalog.curves import CascadeCurves, SharePoint
from replay.bench.papers.fluid_bound import Fluid, fluid_bound, fluid_of
from streams.parsing.catalog import parse
from tests.builders import a_catalog, a_variant
from tests.paths import CATALOGS

DIFFSERVE = parse((CATALOGS / "diffserve-sdturbo.toml").read_text(), "diffserve-sdturbo")


def found(slo_ms: float = 10_000.0) -> Fluid:
    fluid = fluid_of(a_catalog(), slo_ms)
    assert fluid is not None
    return fluid


def test_with_time_for_everybody_all_get_the_best() -> None:
    assert found().at(0.001, 4).quality == pytest.approx(1.0)
    assert found().at(0.0, 4).share == 1


def test_beyond_what_the_cheapest_level_carries_a_share_is_not_served() -> None:
    """11 ms an image in batches of 4."""
    assert found().at(2 * 1000 / 11, 1).share == pytest.approx(0.5)
    assert found().at(2 * 1000 / 11, 1).quality == pytest.approx(0.8)


def test_in_between_the_workers_are_used_up() -> None:
    """At 20 /s a worker has 50 ms a request: 11 for light, 39 towards the 100 of heavy."""
    served = found().at(20.0, 1)
    straight = (50 - 11) / (100 - 11)
    assert served.share == 1
    assert 0.8 + 0.2 * straight - 1e-9 <= served.quality <= 1.0


def test_quality_never_rises_with_demand_nor_falls_with_workers() -> None:
    fluid = fluid_of(DIFFSERVE, 5000)
    assert fluid is not None
    by_demand = [fluid.at(rps, 16).quality for rps in np.linspace(0.5, 330, 60).tolist()]
    assert by_demand == sorted(by_demand, reverse=True)
    by_workers = [fluid.at(20.0, workers).quality for workers in range(1, 40)]
    assert by_workers == sorted(by_workers)
    assert by_workers[-1] == pytest.approx(-16.79, abs=0.01)  # the best share, never beyond it


def test_batches_whose_calls_do_not_fit_the_slo_are_not_counted_on() -> None:
    assert found(30.0).at(2 * 1000 / 15, 1).share == pytest.approx(0.5)  # 15 ms an image in batches of 2
    assert fluid_of(a_catalog(), 10.0) is None


def test_a_better_image_that_costs_less_leaves_no_room_for_the_worse() -> None:
    variants = a_catalog().variants | {"poor": a_variant(name="poor", latency_ms={1: 90.0}, quality=0.5)}
    fluid = fluid_of(a_catalog(variants=variants), 10_000)
    assert fluid is not None
    assert fluid.cheapest_quality == 0.8


def test_a_measured_curve_counts() -> None:
    curves = CascadeCurves(judged=(SharePoint(0.0, 0.8), SharePoint(0.5, 1.2), SharePoint(1.0, 1.0)), random=())
    fluid = fluid_of(a_catalog(curves={a_catalog().pair().key: curves}, scale="fid"), 10_000)
    assert fluid is not None
    assert fluid.at(0.001, 4).quality == pytest.approx(1.2)


def test_each_planning_interval_has_its_own_demand_and_empty_ones_count_for_nothing() -> None:
    """4 /s and then 400 /s, which a worker serves in part: what is served counts."""
    calm, busy = np.arange(20) * 250.0, 5000 + np.arange(2000) * 2.5
    fluid = found(2000.0)
    alone, most = fluid.at(4.0, 1), fluid.at(400.0, 1)
    both = np.average([alone.quality, most.quality], weights=[20 * alone.share, 2000 * most.share])
    about = 1, 2000.0, 5000.0
    assert fluid_bound(a_catalog(), np.concatenate([calm, busy]), *about) == pytest.approx(both)
    assert fluid_bound(a_catalog(), np.concatenate([calm, 60_000 + calm]), *about) == pytest.approx(alone.quality)
    assert fluid_bound(a_catalog(), calm, 1, 10.0, 5000.0) is None
