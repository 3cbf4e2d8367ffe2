"""How a worker takes jobs; what is late is not done, and what hangs is not waited for."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.observation.run_times import MIN_CALLS
from planner.observation.workers import WorkerView
from planner.serving.dispatch.worker import (
    DRAIN_MS,
    MIN_STALL_MS,
    PACE_OVER,
    SETTLE_MS,
    STALL_FACTOR,
    WINDOW_MS,
    WorkerLogic,
    group_by_call,
    is_stalled,
    may_leave,
    remaining_ms,
    updated_pace,
    window,
)
from schemas.messages import Plan, ScalePlan
from tests.builders import a_plan, a_variant, a_worker

RUN_MS = 200.0
TOO_LATE_MS = STALL_FACTOR * RUN_MS + MIN_STALL_MS


@pytest.mark.parametrize(("call_ms", "jobs"), [(20.0, 10), (150.0, 1), (WINDOW_MS / 2, 2), (5000.0, 1)])
def test_a_window_holds_200_ms_of_calls_and_one_at_least(call_ms: float, jobs: int) -> None:
    assert window(a_variant(latency_ms={1: call_ms}), 1) == jobs


def released_at(*plans: tuple[int, float, bool], now_ms: float) -> bool:
    logic = WorkerLogic(a_variant())
    for version, created_ms, is_leaving in plans:
        logic.follow(version, created_ms, is_leaving=is_leaving)
    return logic.may_leave_empty(now_ms)


def test_the_last_worker_may_leave_an_empty_topic_when_routers_obey_the_first_plan_that_moves_it() -> None:
    moved = [(version, 500.0 * version, True) for version in range(2, 9)]  # plans come faster than they settle
    assert not released_at((1, 500.0, False), *moved, now_ms=1000.0 + SETTLE_MS)
    assert released_at((1, 500.0, False), *moved, now_ms=1001.0 + SETTLE_MS)


def test_a_plan_that_lets_it_stay_or_was_missed_begins_the_time_anew() -> None:
    for between in ([(3, 900.0, False)], []):
        plans = [(2, 0.0, True), *between, (4, 1000.0, True), (5, 1500.0, True)]
        assert not released_at(*plans, now_ms=1000.0 + SETTLE_MS)
        assert released_at(*plans, now_ms=1001.0 + SETTLE_MS)


def test_a_worker_that_no_plan_moves_stays() -> None:
    assert not released_at(now_ms=1e12)
    assert not released_at((1, 0.0, False), now_ms=1e12)


def test_a_window_of_batches_holds_whole_ones() -> None:
    assert window(a_variant(latency_ms={1: 20.0, 4: 44.0}), 4) == 4 * 4


def test_jobs_that_are_generated_alike_share_a_call_in_the_order_of_the_first() -> None:
    assert group_by_call([3, 0, 3, 5, 0], lambda step: step) == [[3, 3], [0, 0], [5]]
    assert group_by_call([], lambda step: step) == []


def test_the_pace_follows_what_jobs_take_of_late() -> None:
    pace = 1.0
    for _ in range(200):
        pace = updated_pace(pace, 80.0, 200.0)
    assert pace == pytest.approx(0.4, abs=1e-3)
    assert updated_pace(1.0, 200.0, 200.0) == 1.0


def test_work_in_time_has_the_rest_before_it() -> None:
    assert remaining_ms(RUN_MS, 50.0) == 150.0


def test_late_work_is_expected_to_be_late_by_as_much_again() -> None:
    assert remaining_ms(RUN_MS, 500.0) == 300.0


@pytest.mark.parametrize(("elapsed_ms", "does"), [(RUN_MS, False), (TOO_LATE_MS, False), (TOO_LATE_MS + 1, True)])
def test_work_hangs_when_it_is_later_than_any_slow_machine_makes_it(elapsed_ms: float, does: bool) -> None:
    assert is_stalled(RUN_MS, elapsed_ms) is does


def test_work_that_hangs_for_an_hour_is_no_hour_of_work() -> None:
    assert remaining_ms(RUN_MS, 3_600_000.0) == RUN_MS


def test_a_window_is_split_into_calls_and_takes_as_long_as_all_of_them_at_the_pace_of_recent_jobs() -> None:
    logic = WorkerLogic(a_variant(latency_ms={1: 20.0, 4: 44.0}))
    batches, run_ms = logic.begin([1, 2, 3, 4, 5], 4)
    assert batches == [[1, 2, 3, 4], [5]]
    assert run_ms == 64.0
    logic.pace = 0.5
    assert logic.begin([1], 4) == ([[1]], 10.0)


def test_a_job_counts_in_the_pace_whether_or_not_it_is_in_time() -> None:
    logic = WorkerLogic(a_variant(latency_ms={1: 20.0}))
    assert logic.is_in_time(None, 20.0, 5.0, 0.0)
    assert logic.pace == 1.0
    assert logic.is_in_time(15.0, 10.0, 5.0, 0.0)
    assert logic.pace < 1.0
    slower = logic.pace
    assert not logic.is_in_time(14.0, 10.0, 5.0, 0.0)
    assert logic.pace < slower


def test_heartbeats_go_by_the_pace_at_the_end_of_the_last_window() -> None:
    logic = WorkerLogic(a_variant(latency_ms={1: 20.0}))
    logic.is_in_time(None, 10.0, 0.0, 0.0)
    assert logic.waiting_ms(3) == 60.0
    logic.end()
    assert logic.waiting_ms(3) == 60.0 * logic.pace


def test_jobs_that_wait_count_with_what_recent_jobs_waited_for_components_as_of_the_last_window() -> None:
    logic = WorkerLogic(a_variant(latency_ms={1: 20.0}))
    logic.on_loaded(0.0, 1)
    logic.on_loaded(320.0, 2)
    assert logic.waiting_ms(3) == 60.0
    logic.end()
    mean_ms = 160 / PACE_OVER * (1 + 15 / PACE_OVER)
    assert logic.waiting_ms(3) == pytest.approx(3 * (20.0 + mean_ms))
    for _ in range(200):
        logic.on_loaded(0.0, 1)
    logic.end()
    assert logic.waiting_ms(3) == pytest.approx(60.0, abs=0.01)


def test_a_call_that_loads_is_in_hand_for_as_long_as_the_load_and_the_window_take() -> None:
    logic = WorkerLogic(a_variant(latency_ms={1: 20.0}))
    logic.begin([1], 1)
    logic.on_loading(400.0)
    assert logic.in_hand_ms == 420.0
    logic.end()
    assert logic.in_hand_ms == 0.0


def a_slow_worker(*slownesses: float) -> WorkerLogic:
    logic = WorkerLogic(a_variant(latency_ms={1: 200.0, 2: 300.0}))
    for slowness in slownesses:
        logic.on_generated(slowness * 200.0, 200.0)
    return logic


def test_a_worker_whose_calls_take_longer_than_profiled_reckons_with_it() -> None:
    slow, usual = a_slow_worker(*[1.2] * MIN_CALLS), a_slow_worker(*[1.0] * MIN_CALLS)
    assert slow.waiting_ms(3) == pytest.approx(1.2 * usual.waiting_ms(3))
    assert slow.begin([1], 1).run_ms == pytest.approx(240.0)
    assert slow.begin([1, 2], 2).run_ms == pytest.approx(360.0)
    assert usual.is_in_time(230.0, 200.0, 10.0, 0.0)
    assert not slow.is_in_time(230.0, 200.0, 10.0, 0.0)
    assert slow.is_in_time(250.0, 200.0, 10.0, 0.0)


def test_a_few_calls_a_straggler_and_noise_do_not_count_as_slowness() -> None:
    assert a_slow_worker(*[2.0] * (MIN_CALLS - 1)).slowness == 1.0
    assert a_slow_worker(1.0, 1.0, 9.0, 1.0).slowness == 1.0
    assert a_slow_worker(*[1.04] * 9).slowness == 1.0
    assert a_slow_worker(*[0.0] * 9).slowness == 1.0, "a clock that stood still says nothing"


def calls(*due_ms: float, slowness: float = 1.0) -> list[list[float]]:
    """The calls for jobs that are due then; one alone takes 130 ms, b of them 90 b + 40."""
    logic = WorkerLogic(a_variant(latency_ms={1: 130.0, 2: 220.0, 4: 400.0}))
    logic.slowness = slowness
    return logic.calls_in_time(list(due_ms), due_ms, lambda some: 90.0 * len(some) + 40.0, 1000.0)


def test_jobs_with_time_enough_share_a_call() -> None:
    assert calls(math.inf, 1400.0, 1500.0) == [[math.inf, 1400.0, 1500.0]]


def test_a_job_that_a_shared_call_would_make_late_goes_before_the_others() -> None:
    assert calls(2000.0, 1150.0, math.inf) == [[1150.0], [2000.0, math.inf]]
    assert calls(2000.0, 1300.0, 1250.0) == [[1250.0, 1300.0], [2000.0]]
    assert calls(2000.0, 1150.0, slowness=2.0) == [[2000.0, 1150.0]]  # as slow as it is, it is late either way


def test_a_call_is_not_split_where_no_more_jobs_are_in_time_by_it() -> None:
    assert calls(1230.0, 1150.0) == [[1230.0, 1150.0]]  # one of the two is late either way
    assert calls(1220.0, 1100.0) == [[1220.0, 1100.0]]


def test_a_job_that_is_late_even_alone_delays_nobody() -> None:
    assert calls(1100.0, 1150.0, 1350.0) == [[1150.0], [1350.0, 1100.0]]


SERVED = ("a", "b", "c")
LIVE = st.lists(st.sampled_from(("", *SERVED)), max_size=8).map(
    lambda served: tuple(a_worker(f"w-{i}", variant) for i, variant in enumerate(served))
)


def moving(**variants: str) -> Plan:
    """A plan in which workers 1, 2, ... have these variants, by w1, w2, ..."""
    return a_plan(allocation={name.replace("w", "w-"): variant for name, variant in variants.items()})


def left(worker_id: str, serves: str, plan: Plan, live: Sequence[WorkerView], *, after_drain: bool = False) -> bool:
    return may_leave(worker_id, serves, plan, live, has_drained_enough=after_drain)


def scaling(**variants: str) -> Plan:
    return a_plan(allocation=moving(**variants).allocation, scale=ScalePlan(targets={"a": len(variants)}))


def test_a_worker_whose_place_the_plan_keeps_may_not_leave() -> None:
    live = [a_worker("w-1", "a"), a_worker("w-2", "a")]
    assert not left("w-1", "a", moving(w1="a", w2="a"), live)
    assert not left("w-1", "a", moving(), live)


def test_a_worker_may_leave_when_another_that_serves_stays() -> None:
    live = [a_worker("w-1", "a"), a_worker("w-2", "a", state="painting")]
    assert left("w-1", "a", moving(w1="b", w2="a"), live)
    assert left("w-1", "a", moving(w1="b"), live), "whom a plan does not name stays"


@pytest.mark.parametrize("state", ["starting", "loading", "draining"])
def test_a_worker_does_not_leave_for_one_that_does_not_serve_yet(state: str) -> None:
    live = [a_worker("w-1", "a"), a_worker("w-2", "a", state=state)]
    assert not left("w-1", "a", moving(w1="b", w2="a"), live)


def test_the_only_worker_of_a_variant_drains_it_first() -> None:
    live = [a_worker("w-1", "a"), a_worker("w-2", "b")]
    assert not left("w-1", "a", moving(w1="b", w2="b"), live)
    assert not left("w-1", "a", moving(w1="b"), [])


def test_the_only_worker_of_a_variant_leaves_for_another_one_when_it_has_drained_it_for_long_enough() -> None:
    live = [a_worker("w-1", "a"), a_worker("w-2", "b")]
    assert left("w-1", "a", moving(w1="b", w2="b"), live, after_drain=True)
    both = [a_worker("w-1", "a"), a_worker("w-2", "a", state="draining")]
    assert left("w-1", "a", moving(w1="b", w2="b"), both, after_drain=True)
    assert not left("w-1", "a", moving(w1="a"), live, after_drain=True), "the plan keeps it"


def test_however_long_it_drains_a_worker_waits_for_one_that_is_loading_the_variant() -> None:
    live = [a_worker("w-1", "a"), a_worker("w-2", "a", state="loading")]
    assert not left("w-1", "a", moving(w1="b", w2="a"), live, after_drain=True)


def test_however_long_it_takes_a_worker_drains_its_topic_before_it_joins_the_pool() -> None:
    assert not left("w-1", "a", scaling(), [a_worker("w-1", "a")], after_drain=True)


def test_the_drain_is_counted_from_the_first_plan_that_wants_the_worker_elsewhere() -> None:
    logic = WorkerLogic(a_variant())
    assert not logic.has_drained_enough(1e12)
    for version in range(1, 30):
        logic.follow(version, 500.0 * version, is_leaving=True)
    assert not logic.has_drained_enough(500.0 + DRAIN_MS)
    assert logic.has_drained_enough(501.0 + DRAIN_MS)
    logic.follow(30, 15_000.0, is_leaving=False)
    assert not logic.has_drained_enough(1e12)


def test_a_worker_drains_for_two_loads_where_they_take_longer() -> None:
    for load_ms, drains_ms in ((1000.0, DRAIN_MS), (DRAIN_MS, 2 * DRAIN_MS)):
        logic = WorkerLogic(a_variant(load_ms=load_ms))
        logic.follow(1, 0.0, is_leaving=True)
        assert not logic.has_drained_enough(drains_ms)
        assert logic.has_drained_enough(drains_ms + 1)


def test_whom_a_scaling_plan_does_not_name_is_to_leave_for_the_pool() -> None:
    live = [a_worker("w-1", "a"), a_worker("w-2", "a")]
    assert left("w-1", "a", scaling(w2="a"), live)
    assert not left("w-1", "a", scaling(), live), "the first of all who leave drains the topic"
    assert left("w-2", "a", scaling(), live)


@given(LIVE, st.lists(st.sampled_from(SERVED), min_size=8, max_size=8))
def test_never_do_all_who_serve_a_variant_leave_at_once(workers: tuple[WorkerView, ...], wanted: list[str]) -> None:
    plan = a_plan(allocation={worker.worker_id: own for worker, own in zip(workers, wanted, strict=False)})
    for variant in SERVED:
        serving = [worker.worker_id for worker in workers if worker.variant == variant]
        stay = [name for name in serving if not left(name, variant, plan, workers)]
        assert bool(stay) == bool(serving)
        if serving and all(plan.allocation[name] != variant for name in serving):
            assert stay == [min(serving)]  # exactly one drains


@pytest.mark.parametrize(
    ("plan", "turn"),
    [
        (None, (False, False, 1)),
        (a_plan(allocation={"w-1": "light"}, batch={"light": 4}), (False, False, 4)),
        (a_plan(allocation={"w-2": "light"}), (False, False, 1)),
        (a_plan(allocation={"w-2": "light"}, scale=ScalePlan(targets={})), (True, True, 1)),
        (a_plan(allocation={"w-1": "heavy", "w-2": "light"}, batch={"light": 4}), (True, True, 4)),
        (a_plan(allocation={"w-1": "heavy", "w-2": "heavy"}), (True, False, 1)),
    ],
    ids=["no plan", "as planned", "not named", "not named in a scaled fleet", "moved", "moved, and drains"],
)
def test_a_turn_leaves_or_takes_jobs_as_the_plan_has_it(plan: Plan | None, turn: tuple[bool, bool, int]) -> None:
    live = [a_worker("w-1", "light"), a_worker("w-2", "light")]
    found = WorkerLogic(a_variant()).turn("w-1", plan, lambda: live, 0.0)
    assert (found.is_leaving, found.leaves, found.batch) == turn


def test_a_worker_that_holds_its_variant_does_not_leave_it() -> None:
    moved = a_plan(allocation={"w-1": "heavy"})
    logic = WorkerLogic(a_variant())
    assert not logic.turn("w-1", moved, lambda: (), 0.0, holds=True).is_leaving
    assert logic.turn("w-1", moved, lambda: (), 0.0).is_leaving
