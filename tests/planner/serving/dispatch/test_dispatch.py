"""Which worker gets the next job."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.dispatch.dispatch import KINDS, RETRY_MS, Retry, WorkerChoice
from planner.serving.dispatch.free_times import FreeTimes
from planner.serving.dispatch.worker_loads import Load
from schemas.errors import Unknown
from tests.builders import a_catalog, a_plan
from tests.planner.serving.workers import choose

LOADS = st.lists(st.integers(0, 100), min_size=1, max_size=8).map(
    lambda remaining: [Load(f"w-{i}", i, float(ms)) for i, ms in enumerate(remaining)]
)
IDLE = [Load(f"w-{i}", i, 0.0) for i in range(4)]


@given(LOADS, st.text(), st.integers(0, 1000))
def test_least_work_goes_to_a_worker_that_finishes_first(loads: list[Load], request_id: str, sent: int) -> None:
    chosen = choose("least-work", loads, request_id, sent, 20)
    assert chosen in loads
    assert chosen.remaining_ms == min(load.remaining_ms for load in loads)


@given(LOADS, st.text())
def test_pull_waits_until_a_worker_is_idle(loads: list[Load], request_id: str) -> None:
    chosen = choose("pull", loads, request_id, 0, 20)
    assert (chosen is None) == all(load.remaining_ms > 0 for load in loads)
    assert chosen is None or chosen.remaining_ms == 0


def test_pull_fills_the_next_call_of_a_worker_that_generates_several_at_once() -> None:
    loads = [Load("w-0", 0, 70.0), Load("w-1", 1, 59.0)]
    assert choose("pull", loads, "r", 0, 20, batch=1) is None
    assert choose("pull", loads, "r", 0, 20, batch=3) == loads[1]  # less than three jobs before it
    assert choose("pull", loads, "r", 0, 20, batch=2) is None
    idle = Load("w-2", 2, 0.0)
    assert choose("pull", [idle, *loads], "r", 0, 20, batch=3) == idle


@pytest.mark.parametrize("kind", ["least-work", "pull", "random"])
def test_idle_workers_share_requests_evenly_and_a_request_always_gets_the_same(kind: str) -> None:
    chosen = [choose(kind, IDLE, f"r-{i}", 0, 20) for i in range(4000)]
    counts = collections.Counter(chosen)
    assert set(counts) == set(IDLE)
    assert min(counts.values()) > 900
    assert chosen == [choose(kind, IDLE, f"r-{i}", 7, 20) for i in range(4000)]


def test_round_robin_takes_turns() -> None:
    assert [choose("round-robin", IDLE, "r", sent, 20) for sent in range(6)] == [*IDLE, *IDLE[:2]]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_without_a_worker_there_is_none(kind: str) -> None:
    assert choose(kind, [], "r", 0, 20) is None


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(Unknown, match="did you mean 'least-work'"):
        choose("least-wrok", IDLE, "r", 0, 20)


def test_a_sender_takes_turns_by_what_it_has_sent_to_the_variant() -> None:
    choice, plan = WorkerChoice(a_catalog()), a_plan(dispatch="round-robin")
    turns = []
    for _ in range(3):
        turns.append(choice.choose(plan, "light", "r", FreeTimes([0.0, 0.0]), 0.0))
        choice.on_sent("light")
    assert turns == [0, 1, 0]
    assert choice.choose(plan, "heavy", "r", FreeTimes([0.0, 0.0]), 0.0) == 0
    assert choice.choose(plan, "light", "r", FreeTimes(), 0.0) is None


def test_a_pulled_job_that_no_worker_can_take_is_asked_about_again() -> None:
    choice = WorkerChoice(a_catalog())
    assert choice.choose(a_plan(dispatch="pull"), "light", "r", FreeTimes([170.0, 160.0]), 100.0) == Retry(
        RETRY_MS, 60.0
    )
    four = a_plan(dispatch="pull", batch={"light": 4})
    assert choice.choose(four, "light", "r", FreeTimes([190.0, 200.0]), 100.0) == Retry(RETRY_MS, 10.0), (
        "a call of 80 ms waits"
    )
    assert choice.choose(four, "light", "r", FreeTimes([179.0, 200.0]), 100.0) == 0
