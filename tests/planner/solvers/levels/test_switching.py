"""When the strategy changes, and how workers get there without a moment in which nobody generates."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.observation.reuse import ObservedReuse
from planner.observation.workers import SERVING, WorkerView
from planner.solvers.levels.strategy_switch import (
    LEAVING,
    MIN_LOOKUPS,
    MODELS,
    RETURNING,
    REUSE,
    STAGES,
    Retrieval,
    Rule,
    State,
    after_switch,
    is_under_way,
    ready,
    recalled,
    remembered,
    retrieval_of,
    step,
    wave,
)
from tests.builders import a_worker, lookups

RULE = Rule(return_after_ms=15_000)
HEALTHY, SLOW, DOWN, UNTRIED = (Retrieval(ms, 100.0) for ms in (10.0, 80.0, math.inf, None))
VARIANTS = ("heavy", "light")
BETWEEN = Retrieval(40.0, 100.0)


@pytest.mark.parametrize("retrieval", [SLOW, DOWN])
def test_reuse_is_left_at_once_when_looking_images_up_costs_too_much(retrieval: Retrieval) -> None:
    assert step(State(REUSE), retrieval, 1000, RULE).stage == LEAVING


@pytest.mark.parametrize("retrieval", [HEALTHY, UNTRIED, BETWEEN, Retrieval(math.nan, 100.0)])
def test_reuse_is_kept_while_nothing_speaks_against_it(retrieval: Retrieval) -> None:
    assert step(State(REUSE), retrieval, 1000, RULE) == State(REUSE)


def test_a_patient_rule_leaves_only_what_stays_slow() -> None:
    patient = Rule(leave_after_ms=10_000)
    first = step(State(REUSE), SLOW, 1000, patient)
    assert first == State(REUSE, 1000)
    assert step(first, HEALTHY, 9000, patient) == State(REUSE)
    assert step(first, UNTRIED, 11_000, patient).stage == LEAVING
    assert step(first, SLOW, 10_999, patient) == first


@pytest.mark.parametrize("stage", [LEAVING, MODELS])
def test_reuse_comes_back_only_after_it_was_healthy_for_a_while(stage: str) -> None:
    state = State(stage)
    for plans, now_ms in enumerate((0, 5000, 10_000), 1):
        state = step(state, HEALTHY, now_ms, RULE)
        assert state == State(stage, 0, plans)
    assert step(state, HEALTHY, 15_000, RULE) == State(RETURNING)


def test_a_planner_that_plans_seldom_still_sees_three_good_periods_before_it_returns() -> None:
    state = State(MODELS)
    for now_ms in (0, 60_000):
        state = step(state, HEALTHY, now_ms, RULE)
    assert state.stage == MODELS
    assert step(state, UNTRIED, 120_000, RULE).stage == MODELS, "a plan that saw no lookup counts for nothing"
    assert step(state, HEALTHY, 120_000, RULE).stage == RETURNING


@pytest.mark.parametrize(("unanswered", "stage"), [(0.2, REUSE), (0.3, LEAVING)])
def test_quick_answers_do_not_make_up_for_those_that_do_not_come(unanswered: float, stage: str) -> None:
    assert step(State(REUSE), HEALTHY._replace(unanswered=unanswered), 1000, RULE).stage == stage


def test_a_few_lookups_without_an_answer_keep_the_fleet_away() -> None:
    assert step(State(MODELS), HEALTHY._replace(unanswered=0.04), 1000, RULE).since_ms == 1000
    assert step(State(MODELS), HEALTHY._replace(unanswered=0.1), 1000, RULE).since_ms == -1


@pytest.mark.parametrize(("unanswered", "lookups", "comes"), [(0.1, 10, True), (0.2, 10, False), (0.2, 5, False)])
def test_one_probe_of_ten_that_gets_no_answer_does_not_keep_a_fleet_away(
    unanswered: float, lookups: int, comes: bool
) -> None:
    seen = HEALTHY._replace(unanswered=unanswered, lookups=lookups)
    assert (step(State(MODELS), seen, 1000, RULE).since_ms == 1000) == comes


@pytest.mark.parametrize("cold", [SLOW, HEALTHY._replace(unanswered=0.6)])
def test_the_first_few_lookups_do_not_send_the_fleet_away_but_open_breakers_do(cold: Retrieval) -> None:
    few = MIN_LOOKUPS - 1
    assert step(State(REUSE), cold._replace(lookups=few), 1000, RULE) == State(REUSE)
    assert step(State(REUSE), cold, 1000, RULE).stage == LEAVING
    assert step(State(REUSE), DOWN._replace(lookups=few), 1000, RULE).stage == LEAVING


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (None, Retrieval(None, 50.0)),
        (lookups(7.0, unanswered=0.1), Retrieval(7.0, 50.0, 0.1, 100)),
        (lookups(7.0, failing=0.5), Retrieval(math.inf, 50.0, 1.0)),
        (lookups(0.0, lookups=0), Retrieval(None, 50.0, 0.0, 0)),
    ],
    ids=["nobody looked", "answered", "half of the breakers open", "no lookup yet"],
)
def test_heartbeats_become_the_cost_of_a_retrieval(seen: ObservedReuse | None, expected: Retrieval) -> None:
    assert retrieval_of(seen, 50.0) == expected


def test_only_a_fleet_between_the_strategies_is_under_way() -> None:
    assert {stage for stage in STAGES if is_under_way(remembered(State(stage)))} == {LEAVING, RETURNING}
    assert not is_under_way({})


@pytest.mark.parametrize("relapse", [SLOW, DOWN, BETWEEN])
def test_a_relapse_starts_the_wait_anew(relapse: Retrieval) -> None:
    state = step(State(MODELS, 0), relapse, 10_000, RULE)
    assert state == State(MODELS)
    assert step(step(state, HEALTHY, 11_000, RULE), HEALTHY, 20_000, RULE).stage == MODELS


def test_a_clock_that_jumps_back_starts_the_wait_anew() -> None:
    state = step(State(MODELS, 1_000_000), HEALTHY, 5000, RULE)
    assert state == State(MODELS, 5000, 1)


def test_a_return_is_broken_off_when_retrievals_turn_bad_again() -> None:
    assert step(State(RETURNING), DOWN, 0, RULE).stage == LEAVING


def test_a_store_that_comes_and_goes_every_period_does_not_make_the_fleet_flap() -> None:
    state, switches = State(REUSE), 0
    for period in range(100):
        before = state
        state = step(state, DOWN if period % 2 else HEALTHY, period * 5000, RULE)
        state = after_switch(state, {}, ())
        switches += state.stage != before.stage
    assert state.stage == MODELS
    assert switches == 1  # through LEAVING at once, as there is nobody to wait for


def test_the_state_survives_the_plan_s_memory() -> None:
    for stage in STAGES:
        for since_ms in (-1, 7):
            state = State(stage, since_ms)
            assert recalled(json.loads(json.dumps(remembered(state)))) == state


@pytest.mark.parametrize("memory", [{}, {"stage": "elsewhere", "since_ms": 1}, {"stage": MODELS}, {"stage": 3, "x": 1}])
def test_a_memory_that_is_not_ours_begins_with_reuse(memory: dict) -> None:
    assert recalled(memory) == State(REUSE)


def moving(worker: WorkerView, variant: str) -> WorkerView:
    return a_worker(worker.worker_id, worker.variant, state="loading", allocated=variant)


def loaded(worker: WorkerView) -> WorkerView:
    return a_worker(worker.worker_id, worker.allocated, allocated=worker.allocated)


FLEET = st.lists(
    st.tuples(st.sampled_from(("heavy", "light", "")), st.sampled_from(("ready", "painting", "loading"))), max_size=9
).map(lambda rows: [a_worker(f"w-{i}", variant, state=state) for i, (variant, state) in enumerate(rows)])


@given(FLEET, st.lists(st.sampled_from(("heavy", "light")), min_size=9, max_size=9))
def test_a_wave_leaves_half_of_the_workers_where_they_generate(workers: list[WorkerView], wanted: list[str]) -> None:
    target = {w.worker_id: variant for w, variant in zip(workers, wanted, strict=False)}
    now = wave(target, workers, VARIANTS)
    assert set(now) == set(target)
    serving = [w for w in workers if w.state in SERVING and w.variant]
    moved = [w for w in serving if now[w.worker_id] != w.variant]
    away = len(workers) - len(serving)
    assert len(moved) <= max(0, max(1, len(workers) // 2) - away)
    for worker in workers:
        assert now[worker.worker_id] in (target[worker.worker_id], worker.variant)
        if worker not in serving:
            assert now[worker.worker_id] == target[worker.worker_id]


@pytest.mark.parametrize("n_workers", range(1, 9))
def test_waves_end_at_the_target_and_somebody_generates_all_the_while(n_workers: int) -> None:
    workers = [a_worker(f"w-{i}", "heavy") for i in range(n_workers)]
    target = dict.fromkeys((w.worker_id for w in workers), "light")
    state = State(LEAVING)
    for _ in range(2 * n_workers + 2):
        now = wave(target, workers, VARIANTS)
        if n_workers > 1:
            assert sum(ready(now, workers).values()) >= n_workers // 2
        state = after_switch(state, target, workers)
        workers = [moving(w, now[w.worker_id]) if now[w.worker_id] != w.home else w for w in workers]
        half_way = wave(target, workers, VARIANTS)
        if n_workers > 1:
            assert sum(ready(half_way, workers).values()) >= 1
        workers = [loaded(w) if w.state == "loading" else w for w in workers]
        if state.stage == MODELS:
            break
    assert state.stage == MODELS
    assert {w.variant for w in workers} == {"light"}


def test_a_stage_is_not_over_while_a_worker_is_on_its_way() -> None:
    workers = [a_worker("w-1", "light"), a_worker("w-2", "heavy", state="loading", allocated="light")]
    target = {"w-1": "light", "w-2": "light"}
    assert after_switch(State(LEAVING), target, workers).stage == LEAVING
    assert after_switch(State(LEAVING), target, [workers[0], loaded(workers[1])]).stage == MODELS
    assert after_switch(State(RETURNING), {"w-1": "heavy"}, workers[:1]).stage == RETURNING
    assert after_switch(State(RETURNING, 5), {"w-1": "light"}, workers[:1]) == State(REUSE, 5)


def test_who_is_about_to_leave_does_not_count_as_ready() -> None:
    workers = [a_worker("w-1", "light"), a_worker("w-2", "heavy"), a_worker("w-3", "light", state="draining")]
    assert ready({"w-1": "light", "w-2": "light", "w-3": "light"}, workers) == {"light": 1}


def test_who_serves_what_no_longer_exists_goes_at_once_and_counts_as_under_way() -> None:
    workers = [a_worker("w-1", "gone"), a_worker("w-2", "gone"), a_worker("w-3", "heavy"), a_worker("w-4", "heavy")]
    target = dict.fromkeys((w.worker_id for w in workers), "light")
    assert list(wave(target, workers, VARIANTS).values()) == ["light", "light", "heavy", "heavy"]
    assert list(wave(target, workers[2:], VARIANTS).values()) == ["light", "heavy"]
