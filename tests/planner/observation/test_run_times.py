"""Run times as served: what is learned of them, and what a policy plans with."""

import pytest

from planner.catalog.entries import run_ms
from planner.observation.run_times import MIN_CALLS, ObservedRunTime, RunTimes, as_served
from planner.policies import named
from tests.builders import a_catalog, an_observation


def seen_after(*runs: tuple[str, int, int, float]) -> tuple[ObservedRunTime, ...]:
    times = RunTimes(a_catalog())
    for run in runs * MIN_CALLS:
        times.add(*run)
    return times.observed()


def test_a_factor_is_of_the_profile_at_the_job_s_own_batch_and_step() -> None:
    """Heavy takes 200 ms alone, 240 in pairs, three fifths from step 10 of 25; a job of a pair is half a call."""
    runs = (("heavy", 1, 0, 250.0), ("heavy", 2, 0, 300.0), ("heavy", 1, 10, 150.0))
    assert seen_after(*runs) == (ObservedRunTime("heavy", pytest.approx(1.25), 2.5 * MIN_CALLS),)


def test_few_calls_prove_nothing_and_a_straggler_moves_little() -> None:
    times = RunTimes(a_catalog())
    for _ in range(MIN_CALLS - 1):
        times.add("light", 1, 0, 24.0)
    assert times.observed() == ()
    times.add("light", 1, 0, 90_000.0)
    assert times.observed() == (ObservedRunTime("light", pytest.approx(1.2), MIN_CALLS),)
    times.add("gone", 1, 0, 5.0)
    times.clear()
    assert times.observed() == ()


def test_all_jobs_of_a_call_prove_no_more_than_the_call() -> None:
    times = RunTimes(a_catalog())
    for _ in range(4 * (MIN_CALLS - 1)):
        times.add("heavy", 4, 0, 480.0)
    assert times.observed() == ()
    for _ in range(4):
        times.add("heavy", 4, 0, 480.0)
    assert times.observed() == (ObservedRunTime("heavy", pytest.approx(1.2), MIN_CALLS),)


@pytest.mark.parametrize(("factor", "calls", "is_wrong"), [(1.04, 3, False), (1.06, 3, True), (1.03, 20, True)])
def test_few_calls_must_differ_more_from_the_profile_than_many(factor: float, calls: float, is_wrong: bool) -> None:
    catalog = a_catalog()
    assert (as_served(catalog, (ObservedRunTime("heavy", factor, calls),)) is not catalog) == is_wrong


def test_levels_stay_in_their_order_where_a_cheap_one_was_seen_to_be_slower_than_a_dear_one() -> None:
    served = as_served(a_catalog(), (ObservedRunTime("light", 21.0, 99),))
    light, heavy = (run_ms(served.level(name), 1) for name in ("light", "heavy"))
    assert light == pytest.approx(21 * run_ms(a_catalog().level("light"), 1))
    assert light <= heavy == pytest.approx(light)


def test_the_catalog_is_as_served_where_that_is_not_as_profiled() -> None:
    catalog = a_catalog()
    assert as_served(catalog, (ObservedRunTime("heavy", 1.01, 99),)) is catalog
    slow = as_served(catalog, (ObservedRunTime("heavy", 1.5, 99),))
    assert slow.level("heavy").latency_ms == {1: 300.0, 2: 360.0, 4: 600.0}
    assert slow.level("light") == catalog.level("light")


@pytest.mark.parametrize(("profiles", "follows"), [(1, True), (0, False)])
def test_diffserve_plans_with_the_run_times_that_were_served_unless_told_not_to(profiles: int, follows: bool) -> None:
    """Source: DiffServe 3.1."""
    right, slow = (
        an_observation(8, demand_rps=50.0, run_times=run_times)
        for run_times in ((), (ObservedRunTime("heavy", 1.6, 99),))
    )
    before, after = (named("diffserve")(seen, a_catalog(), {}, {"profiles": profiles}) for seen in (right, slow))
    assert (after.cascades[0].threshold < before.cascades[0].threshold) == follows
    assert (after == before) != follows
