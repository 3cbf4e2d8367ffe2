"""Every policy on every fleet, then each one's own rule."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog import DeferralPoint, Pair
from planner.plans import check, publish
from planner.policies import DEFAULT, POLICIES, Draft, InvalidParameter, named
from planner.policies.diffserve_static import balance, carry
from schemas.errors import Unknown
from tests.builders import a_catalog, a_discriminator, a_variant, an_observation

NAMES = sorted(POLICIES)
CHOOSE_BATCHES = {"diffserve", "hadis", "joint"}
OF_A_GIVEN_BATCH = sorted(set(NAMES) - CHOOSE_BATCHES)


def drafted(name: str, n_workers: int = 4, **parameters: float) -> Draft:
    return named(name)(an_observation(n_workers), a_catalog(), {}, parameters)


def counts(draft: Draft) -> dict[str, int]:
    return {v: list(draft.allocation.values()).count(v) for v in ("light", "heavy")}


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=25)  # some start a solver each time
@given(n_workers=st.integers(0, 12), demand=st.floats(0, 1e4))
def test_every_policy_makes_a_valid_plan_for_any_fleet_and_demand(name: str, n_workers: int, demand: float) -> None:
    observation = an_observation(n_workers, demand_rps=demand)
    draft = named(name)(observation, a_catalog(), {}, {})
    check(publish(draft, None, name, 0), a_catalog())
    assert sorted(draft.allocation) == [worker.worker_id for worker in observation.workers]
    assert draft.expected
    assert math.isfinite(draft.expected.utilization)
    assert draft.reason


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_routes_only_to_levels_that_a_worker_serves(name: str) -> None:
    for n_workers in range(1, 6):
        draft = drafted(name, n_workers)
        served = set(draft.allocation.values())
        assert {level for route in draft.routes for level in route.levels} <= served
        assert {c.next_level for c in draft.cascades if c.threshold > 0} <= served


@pytest.mark.parametrize(
    ("names", "parameter", "misspelt", "outside", "limits"),
    [
        (OF_A_GIVEN_BATCH, "batch", "batsch", 1.5, r"a whole number in \[1, 1024\]: got 1.5"),
        (sorted(CHOOSE_BATCHES), "overprovision", "overprovison", 0, r"in \[0.01, 100\]: got 0"),
    ],
)
def test_every_policy_refuses_a_parameter_it_does_not_know_or_out_of_range(
    names: list[str], parameter: str, misspelt: str, outside: float, limits: str
) -> None:
    for name in names:
        with pytest.raises(Unknown, match=rf"unknown parameter '{misspelt}'.*did you mean '{parameter}'"):
            drafted(name, **{misspelt: 2})
        with pytest.raises(InvalidParameter, match=rf"{parameter} must be {limits}"):
            drafted(name, **{parameter: outside})


@pytest.mark.parametrize("name", OF_A_GIVEN_BATCH)
def test_batch_is_one_unless_told_otherwise(name: str) -> None:
    assert set(drafted(name).batch.values()) == {1}
    assert set(drafted(name, batch=4).batch.values()) == {4}


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(Unknown, match=r"clipper-heavy, .*did you mean 'diffserve-static'"):
        named("diffserv-static")
    assert DEFAULT in POLICIES


def test_clipper_light_and_heavy_are_the_two_ends() -> None:
    assert set(drafted("clipper-light").allocation.values()) == {"light"}
    assert set(drafted("clipper-heavy").allocation.values()) == {"heavy"}
    assert drafted("clipper-heavy").expected.utilization == pytest.approx(10 * 0.2 / 4)
    assert drafted("clipper-heavy").expected.heavy_share == 1


def test_random_split_shares_workers_by_the_work() -> None:
    draft = drafted("random-split", 11, heavy_share=0.5)  # light 20 ms, heavy 200 ms: 1 to 10
    assert draft.routes[0].levels == {"light": 0.5, "heavy": 0.5}
    assert counts(draft) == {"light": 1, "heavy": 10}
    assert draft.expected.quality == pytest.approx(0.9)


@pytest.mark.parametrize(("share", "levels"), [(0, {"light": 1.0}), (1, {"heavy": 1.0})])
def test_random_split_at_its_ends_names_one_level(share: float, levels: dict[str, float]) -> None:
    draft = drafted("random-split", heavy_share=share)
    assert draft.routes[0].levels == levels
    assert set(draft.allocation.values()) == set(levels)


def test_random_split_with_one_worker_serves_light_alone_and_says_so() -> None:
    draft = drafted("random-split", 1)
    assert draft.routes[0].levels == {"light": 1.0}
    assert "one worker" in draft.reason


def test_random_split_of_a_catalog_with_one_variant_is_that_variant() -> None:
    catalog = a_catalog(variants={"light": a_variant()}, cascades=(), class_cuts={})
    draft = named("random-split")(an_observation(), catalog, {}, {})
    assert draft.routes[0].levels == {"light": 1.0}


def test_diffserve_static_takes_the_catalog_s_threshold_and_splits_by_the_work() -> None:
    draft = drafted("diffserve-static", 8)  # light 20 ms, heavy .3 x 200 ms: 1 to 3
    assert draft.cascades[0].threshold == 0.3
    assert counts(draft) == {"light": 2, "heavy": 6}
    assert draft.expected.heavy_share == pytest.approx(0.3)


def test_diffserve_static_paints_over_from_the_catalog_s_step_and_needs_fewer_workers_for_it() -> None:
    catalog = a_catalog(cascades=(Pair("light", "heavy", "look", 20),))  # of 25: heavy .3 x 40 ms instead of .3 x 200
    blank, over, told_not_to = (
        named("diffserve-static")(an_observation(8), of, {}, parameters)
        for of, parameters in ((a_catalog(), {}), (catalog, {}), (catalog, {"paint_over_step": 0}))
    )
    assert over.cascades[0].paint_over_step == 20
    assert (counts(blank), counts(over)) == ({"light": 2, "heavy": 6}, {"light": 5, "heavy": 3})
    assert blank.expected.utilization == pytest.approx(10 * 0.3 * 0.2 / 6)
    assert over.expected.utilization == pytest.approx(10 * 0.3 * 0.04 / 3)
    assert told_not_to == blank


def test_diffserve_static_does_not_follow_the_demand() -> None:
    quiet, busy = (
        named("diffserve-static")(an_observation(demand_rps=d), a_catalog(), {}, {"peak_rps": 20}) for d in (1, 90)
    )
    assert quiet == dataclasses.replace(busy, expected=quiet.expected)


@pytest.mark.parametrize(
    ("peak_rps", "n_workers", "threshold"),
    [(10, 4, 0.3), (40, 3, 2 / 8.4), (100, 4, 1 / 21), (500, 4, 0.0)],
)
def test_a_peak_that_does_not_fit_lowers_the_threshold_along_the_curve(
    peak_rps: float, n_workers: int, threshold: float
) -> None:
    draft = drafted("diffserve-static", n_workers, peak_rps=peak_rps)
    assert draft.cascades[0].threshold == pytest.approx(threshold)
    assert ("does not fit" in draft.reason) == (threshold < 0.3)


@pytest.mark.parametrize("parameters", [{}, {"peak_rps": 10}])
def test_diffserve_static_with_one_worker_or_none_defers_nothing(parameters: dict[str, float]) -> None:
    one, none = drafted("diffserve-static", 1, **parameters), drafted("diffserve-static", 0, **parameters)
    assert counts(one) == {"light": 1, "heavy": 0}
    assert one.cascades[0].threshold == none.cascades[0].threshold == 0
    assert none.allocation == {}
    assert "no worker" in none.reason


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
    """SD-Turbo at batch 16 and SDv1.5 at batch 4 on 16 workers (facts/mission-table.md D11, facts/peers.md 3.1).

    Its curve has a point every .005, ours every .05, hence the tolerance.
    """
    curve = a_discriminator(deferral=tuple(DeferralPoint(*point) for point in PUBLISHED))
    stages = carry(demand, 16 / 0.77, 4 / 3.68, 16, curve, wanted=1.0)
    assert stages.light == light
    assert stages.threshold == pytest.approx(threshold, abs=0.01)
