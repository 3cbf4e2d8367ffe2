"""How many workers a variant gets: what is asked for, agreed on, at most doubled, within maxima, not flapping."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.scaling.agreement import Agreement, grown, shared_periods
from planner.scaling.limits import cap_at_doubling, within_tenant_maxima, within_total
from planner.scaling.scaling import Reason, ScaleLimits, Scaler, VariantLoad, VariantScale
from planner.scaling.utilisation import utilisation, wanted_workers
from tests.planner.scaling.queue import ServerQueue

AT_ONCE = Agreement(deviations=0.0)
PERIOD_S = 10.0


def _scaler(total: int = 1000, **tenants: int) -> Scaler:
    return Scaler(ScaleLimits(total=total, by_tenant=tenants))


def _end(scaler: Scaler, in_flight: float, ready: int, rule: Agreement = AT_ONCE, **load: int) -> VariantScale:
    return scaler.end_period({"v": VariantLoad(in_flight={"t": in_flight}, ready=ready, agreement=rule, **load)})["v"]


def _follow(scaler: Scaler, in_flight: list[float], ready: int, rule: Agreement = AT_ONCE) -> list[int]:
    """The targets, where each is reached within a period."""
    targets = []
    for each in in_flight:
        ready = _end(scaler, each, ready, rule).target
        targets.append(ready)
    return targets


def test_30_in_flight_at_a_load_factor_of_8_tenths_want_38_workers() -> None:
    assert wanted_workers(30, 1, 0.8) == 38
    assert wanted_workers(8, 1, 0.8) == 10
    assert wanted_workers(30, 4, 0.75) == 10
    assert wanted_workers(0) == 0
    assert utilisation(30, 38) < 1 < utilisation(30, 37)
    assert utilisation(1, 0) == float("inf")
    assert utilisation(0, 0) == 0


@pytest.mark.parametrize(
    ("in_flight", "concurrency", "factor"), [(-1, 1, 0.8), (float("nan"), 1, 0.8), (1, 0, 0.8), (1, 1, 0)]
)
def test_senseless_loads_are_refused(in_flight: float, concurrency: float, factor: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        wanted_workers(in_flight, concurrency, factor)


def test_workers_at_most_double_and_the_first_comes_from_zero() -> None:
    assert [cap_at_doubling(38, ready) for ready in (0, 1, 4, 8, 16, 32)] == [1, 2, 8, 16, 32, 38]
    targets = _follow(_scaler(), [30.0] * 12, ready=4)
    assert sorted(set(targets)) == [4, 8, 16, 32, 38]
    assert targets[-1] == 38


def test_while_a_scale_up_is_in_flight_no_other_begins() -> None:
    scaler = _scaler()
    for _ in range(3):
        target = _end(scaler, 30.0, 4).target
    assert target == 8
    for _ in range(5):
        assert _end(scaler, 60.0, 4, starting=4).target == 8
    assert _end(scaler, 60.0, 8).target == 16


def test_a_spike_of_one_period_changes_nothing() -> None:
    for spike in (20.0, 200.0):
        assert set(_follow(_scaler(), [3.0] * 9 + [spike] + [3.0] * 9, ready=4)) == {4}


def test_a_request_for_a_variant_without_workers_starts_one_in_the_same_period() -> None:
    scaler = _scaler()
    assert _end(scaler, 0.0, 0) == (0, Reason.STEADY, 0)
    assert _end(scaler, 0.3, 0) == (1, Reason.FROM_ZERO, 1)


def test_a_variant_that_nobody_asks_for_loses_its_last_worker_and_one_with_a_minimum_keeps_it() -> None:
    scaler, rule = _scaler(), Agreement()
    targets = [_end(scaler, 0.0, 1, rule).target for _ in range(rule.calm)]
    assert targets[:-1] == [1] * (rule.calm - 1)
    assert targets[-1] == 0
    assert {_end(_scaler(), 0.0, 1, rule, minimum=1).target for _ in range(2 * rule.calm)} == {1}


def test_where_half_were_idle_for_long_half_leave_after_those_before_have_drained_and_then_one_by_one() -> None:
    scaler, rule = _scaler(), Agreement()
    found = [_end(scaler, 2.0, 32, rule) for _ in range(rule.idle)]
    assert found[:-1] == [(32, Reason.STEADY, 3)] * (rule.idle - 1)
    assert found[-1] == (16, Reason.SHRINK, 3)
    assert _end(scaler, 2.0, 16, rule, draining=16) == (16, Reason.DRAINING, 3)
    assert [_end(scaler, 2.0, ready, rule).target for ready in (16, 8, 4)] == [8, 4, 4]
    assert _follow(_scaler(), [1.0] * rule.calm, 4, rule) == [4] * (rule.calm - 1) + [3], "not half of four"
    assert _end(_scaler(), 2.0, 32, rule, minimum=30).target == 32


def test_a_burst_is_answered_within_agreement_and_doublings() -> None:
    """8 workers at .6, 8 times the load: 38 in flight, which want 48 workers."""
    targets = _follow(_scaler(), [4.8] * 6 + [38.4] * 6, ready=8, rule=Agreement())
    assert targets[:8] == [8] * 8  # two periods of the burst are not yet agreement
    assert targets[8:11] == [16, 32, 48]


def test_no_tenant_and_no_fleet_gets_more_than_its_maximum() -> None:
    found = [_end(_scaler(t=5), 100.0, 4) for _ in range(1)]
    assert found[0].target == 4
    scaler = _scaler(t=5)
    assert [_end(scaler, 100.0, 4).target for _ in range(3)][-1] == 5
    assert _end(scaler, 100.0, 5) == (5, Reason.SATURATED, 125)
    scaler = _scaler(total=6)
    assert [_end(scaler, 100.0, 4) for _ in range(3)][-1] == (6, Reason.SATURATED, 125)


def test_a_variant_at_zero_gets_a_worker_of_a_fleet_that_is_full() -> None:
    loads = {
        "big": VariantLoad(in_flight={"t": 50.0}, ready=10, agreement=AT_ONCE),
        "new": VariantLoad(in_flight={"t": 1.0}, ready=0, agreement=AT_ONCE),
    }
    found = _scaler(total=10).end_period(loads)
    assert (found["big"].target, found["new"].target) == (9, 1)


LOADS = st.dictionaries(
    st.sampled_from("abcd"),
    st.tuples(st.integers(0, 20), st.dictionaries(st.sampled_from("tu"), st.floats(0, 100))),
    min_size=1,
)


@given(st.lists(LOADS, max_size=12), st.integers(0, 40), st.dictionaries(st.sampled_from("tu"), st.integers(0, 10)))
def test_targets_stay_within_the_maximum_and_never_more_than_double(
    periods: list[dict[str, tuple[int, dict[str, float]]]], total: int, tenants: dict[str, int]
) -> None:
    scaler = Scaler(ScaleLimits(total=total, by_tenant=tenants))
    for period in periods:
        loads = {v: VariantLoad(in_flight=by, ready=ready, agreement=AT_ONCE) for v, (ready, by) in period.items()}
        found = scaler.end_period(loads)
        assert sum(scale.target for scale in found.values()) <= max(total, 0)
        for variant, scale in found.items():
            ready = loads[variant].ready
            assert 0 <= scale.target <= ready + max(1, ready)


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50)), st.integers(0, 80))
def test_a_fleets_maximum_is_shared_in_proportion_with_one_for_each_that_wants_any(
    wanted: dict[str, int], maximum: int
) -> None:
    given_ = within_total(wanted, maximum)
    assert sum(given_.values()) == min(maximum, sum(wanted.values()))
    assert all(0 <= given_[each] <= wanted[each] for each in wanted)
    wanting = sum(each > 0 for each in wanted.values())
    assert sum(each > 0 for each in given_.values()) == min(maximum, wanting)


def test_a_tenants_requests_count_as_what_its_maximum_serves() -> None:
    by_tenant = {"t": {"a": 30.0, "b": 10.0}, "u": {"a": 5.0}}
    assert within_tenant_maxima(by_tenant, {"t": 10}, per_worker=0.8) == pytest.approx({"a": 6.0 + 5.0, "b": 2.0})
    assert within_tenant_maxima(by_tenant, {}, per_worker=0.8) == {"a": 35.0, "b": 10.0}


def test_a_scaler_goes_on_after_a_restart() -> None:
    one, other = _scaler(), _scaler()
    for _ in range(2):
        _end(one, 30.0, 4)
    other.restore(json.loads(json.dumps(one.snapshot())))
    assert _end(one, 30.0, 4) == _end(other, 30.0, 4) == (8, Reason.GROW, 38)


def test_load_just_above_what_workers_are_for_is_told_from_noise_over_many_periods() -> None:
    rule = Agreement()
    above = [23.0] * rule.calm  # 25 workers are for 20
    assert grown(above[:3], 25, rule) == 25
    assert grown(above, 25, rule) > 25
    assert shared_periods(20_000, 10_000) == 4
    assert grown(above, 25, Agreement(shared_periods=30)) == 25


def _most_changes_in_ten_minutes(load: float, service_s: float, seed: int) -> int:
    """Over half an hour of constant load, after one to settle; `load`: workers that it keeps busy."""
    rule = Agreement(shared_periods=shared_periods(1000 * service_s, 1000 * PERIOD_S))
    queue, scaler, changes = ServerQueue(rule.wanted(load), service_s, random.Random(seed)), _scaler(), []
    for period in range(360):
        target = _end(scaler, queue.run(load / service_s, PERIOD_S), queue.servers, rule).target
        if target != queue.servers and period >= 180:
            changes.append(period)
        queue.scale(target)
    return max((sum(first <= each < first + 60 for each in changes) for first in changes), default=0)


@pytest.mark.parametrize("load", [1.6, 4.0, 20.0])
def test_constant_load_with_poisson_noise_changes_the_workers_at_most_once_in_ten_minutes(load: float) -> None:
    assert max(_most_changes_in_ten_minutes(load, 0.5, seed) for seed in range(3)) <= 1


def test_few_runs_of_images_that_take_long_change_the_workers_more_than_once_in_ten_minutes() -> None:
    """Queues of long images are noise that lasts: 5 s an image, periods of 10 s."""
    runs = [_most_changes_in_ten_minutes(load, 5.0, seed) for load in (4.0, 8.0, 20.0) for seed in range(8)]
    assert sum(most > 1 for most in runs) <= len(runs) // 4
