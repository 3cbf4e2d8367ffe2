"""The static cascade: threshold and split fixed at the peak, or in proportion to the work."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.curves import CascadeCurves, SharePoint
from planner.catalog.entries import DeferralPoint
from planner.catalog.model import Pair
from planner.observation.observation import Queue
from planner.policies import named
from planner.policies.diffserve_static import balance, carry
from tests.builders import a_catalog, a_discriminator, an_observation
from tests.planner.test_policies import counts, drafted


def test_diffserve_static_takes_the_catalog_s_threshold_and_splits_by_the_work() -> None:
    draft = drafted("diffserve-static", 8)  # light 20 ms, heavy .3 x 200 ms: 1 to 3
    assert draft.cascades[0].threshold == 0.3
    assert counts(draft) == {"light": 2, "heavy": 6}
    assert draft.expected.heavy_share == pytest.approx(0.3)


def test_diffserve_static_refines_from_the_catalog_s_step_and_needs_fewer_workers_for_it() -> None:
    catalog = a_catalog(cascades=(Pair("light", "heavy", "look", 20),))  # of 25: heavy .3 x 40 ms instead of .3 x 200
    blank, over, told_not_to = (
        named("diffserve-static")(an_observation(8), of, {}, parameters)
        for of, parameters in ((a_catalog(), {}), (catalog, {}), (catalog, {"paint_over_step": 0}))
    )
    assert over.cascades[0].refine_from_step == 20
    assert (counts(blank), counts(over)) == ({"light": 2, "heavy": 6}, {"light": 5, "heavy": 3})
    assert blank.expected.utilization == pytest.approx(10 * 0.3 * 0.2 / 6)
    assert over.expected.utilization == pytest.approx(10 * 0.3 * 0.04 / 3)
    assert told_not_to == blank


def test_diffserve_static_does_not_follow_the_demand() -> None:
    quiet, busy = (
        named("diffserve-static")(an_observation(demand_rps=d), a_catalog(), {}, {"peak_rps": 20}) for d in (1, 90)
    )
    assert quiet == dataclasses.replace(busy, expected=quiet.expected)


def test_as_published_it_is_what_diffserve_plans_for_the_peak_held_whatever_comes() -> None:
    """A threshold that is given is another plan: the switch of what is ours."""
    busy = dataclasses.replace(an_observation(8, demand_rps=90.0), queues=(Queue("light", 50.0, 10.0),))
    for seen in (an_observation(8, demand_rps=1.0), busy):
        fixed = named("diffserve-static")(seen, a_catalog(), {}, {"peak_rps": 60})
        best = named("diffserve")(an_observation(8, demand_rps=60.0), a_catalog(), {}, {})
        assert (fixed.cascades, fixed.batch, fixed.allocation) == (best.cascades, best.batch, best.allocation)
        given = named("diffserve-static")(seen, a_catalog(), {}, {"peak_rps": 60, "threshold": 0.3})
        assert given.cascades[0].threshold == 0.3
        assert fixed.cascades[0].threshold > 0.3
        assert fixed.reason.startswith("fixed for a peak of 60 requests/s: ")


@pytest.mark.parametrize(
    ("peak_rps", "n_workers", "threshold"),
    [(10, 4, 0.3), (40, 3, 2 / 8.4), (100, 4, 1 / 21), (500, 4, 0.0)],
)
def test_a_peak_that_does_not_fit_lowers_the_threshold_along_the_curve(
    peak_rps: float, n_workers: int, threshold: float
) -> None:
    draft = drafted("diffserve-static", n_workers, peak_rps=peak_rps, threshold=0.3)
    assert draft.cascades[0].threshold == pytest.approx(threshold)
    assert ("needs more workers" in draft.reason) == (threshold < 0.3)


@pytest.mark.parametrize("parameters", [{}, {"peak_rps": 10}])
def test_diffserve_static_with_one_worker_or_none_defers_nothing(parameters: dict[str, float]) -> None:
    one, none = drafted("diffserve-static", 1, **parameters), drafted("diffserve-static", 0, **parameters)
    assert counts(one) == {"light": 1, "heavy": 0}
    assert one.cascades[0].threshold == none.cascades[0].threshold == 0
    assert none.allocation == {}


@given(
    demand=st.floats(0.1, 500), light=st.floats(1, 100), heavy=st.floats(0.5, 10), n_workers=st.integers(0, 20),
    wanted=st.floats(0, 1),
)  # fmt: skip
def test_what_fits_carries_the_peak_on_both_stages(
    demand: float, light: float, heavy: float, n_workers: int, wanted: float
) -> None:
    stages = carry(demand, light, heavy, n_workers, a_discriminator(), wanted)  # f(t) = t
    assert stages.light + stages.heavy == n_workers
    assert 0 <= stages.threshold <= wanted
    assert stages.heavy * heavy >= demand * stages.threshold - 1e-6  # Eq. 3
    if stages.threshold > 0:
        assert stages.light * light >= demand - 1e-6  # Eq. 2
    if 0 < stages.threshold < wanted - 1e-9:
        assert (stages.light - 1) * light < demand  # all others help heavy: no higher threshold is possible


@given(n_workers=st.integers(2, 20), wanted=st.floats(0.01, 1))
def test_without_a_peak_the_split_carries_at_least_as_much_as_any_other(n_workers: int, wanted: float) -> None:
    def carried(light: int) -> float:
        return min(light * 50, (n_workers - light) * 5 / wanted)

    stages = balance(50, 5, n_workers, a_discriminator(), wanted)
    assert stages.threshold == wanted
    assert carried(stages.light) >= max(carried(light) for light in range(1, n_workers)) - 1e-9


PUBLISHED = (.05, .36), (.1, .449), (.15, .514), (.2, .582), (.25, .69), (.3, .788), (.5, .993)  # fmt: skip


@pytest.mark.parametrize(("demand", "threshold", "light"), [(24, 0.23, 2), (32, 0.115, 2), (40, 0.055, 2)])
def test_diffserve_s_own_figures_come_out(demand: float, threshold: float, light: int) -> None:
    """SD-Turbo at batch 16 and SDv1.5 at batch 4 on 16 workers (planner/policies/SOURCES.md 5).

    Its curve has a point every .005, ours every .05, hence the tolerance.
    """
    curve = a_discriminator(deferral=tuple(DeferralPoint(*point) for point in PUBLISHED))
    stages = carry(demand, 16 / 0.77, 4 / 3.68, 16, curve, wanted=1.0)
    assert stages.light == light
    assert stages.threshold == pytest.approx(threshold, abs=0.01)


def test_a_static_cascade_expects_what_its_curve_was_measured_at_not_a_random_split() -> None:
    points = tuple(SharePoint(share, -20.0 + 4 * share * (1 - share)) for share in (0.0, 0.5, 1.0))
    curves = {Pair("light", "heavy", "look").key: CascadeCurves(judged=points)}
    draft = named("diffserve-static")(an_observation(8), a_catalog(curves=curves, scale="fid"), {}, {"threshold": 0.5})
    assert draft.expected.quality == pytest.approx(-19.0)
    assert drafted("diffserve-static", 8).expected.quality == pytest.approx(0.8 + 0.3 * 0.2), "none was measured"
