"""Which workers are there, what each has to do, and where it is at home."""

from typing import Any

import pytest

from planner.observation.lost import Begun, lost
from planner.observation.workers import ReceivedHeartbeat, live_workers, stated_prices
from schemas.messages import Heartbeat
from tests.builders import NOW_MS, a_heartbeat, owned


def test_silent_failed_and_stopped_workers_are_not_live() -> None:
    heard = {
        "a": ReceivedHeartbeat(a_heartbeat(worker_id="a"), NOW_MS - 3000),
        "b": ReceivedHeartbeat(a_heartbeat(worker_id="b"), NOW_MS - 3001),
        "c": ReceivedHeartbeat(a_heartbeat(worker_id="c", state="stopped"), NOW_MS),
        "d": ReceivedHeartbeat(a_heartbeat(worker_id="d", state="failed"), NOW_MS),
        "e": ReceivedHeartbeat(a_heartbeat(worker_id="e", state="draining"), NOW_MS),
    }
    assert [w.worker_id for w in live_workers(heard, NOW_MS, 3000)] == ["a", "e"]


def test_a_worker_s_remaining_work_is_that_of_all_its_partitions() -> None:
    heartbeat = a_heartbeat(partitions=(owned(0, remaining_ms=30), owned(3, remaining_ms=12)))
    (worker,) = live_workers({"w-1": ReceivedHeartbeat(heartbeat, NOW_MS)}, NOW_MS, 3000)
    assert worker.remaining_ms == 42


def test_a_worker_on_its_way_is_at_home_where_the_plan_wants_it() -> None:
    heard = {"w-1": ReceivedHeartbeat(a_heartbeat(), NOW_MS)}
    assert live_workers(heard, NOW_MS, 3000, {"w-1": "heavy"})[0].home == "heavy"
    assert live_workers(heard, NOW_MS, 3000)[0].home == "light"


def test_the_prices_of_a_fleet_are_known_if_every_live_worker_states_its_own() -> None:
    dear, cheap, silent = (
        ReceivedHeartbeat(a_heartbeat(worker_id=name, variant=variant, price_per_hour=price), seen_ms)
        for name, variant, price, seen_ms in (
            ("a", "heavy", 3.5, NOW_MS), ("b", "light", 0.5, NOW_MS), ("c", "light", 0.0, NOW_MS - 9000)
        )
    )  # fmt: skip
    assert stated_prices({"a": dear, "b": cheap, "c": silent}, NOW_MS, 3000) == (3.5, 0.5)
    assert stated_prices({"a": dear, "b": cheap, "c": silent}, NOW_MS, 3000, "light") == (0.5,)
    assert stated_prices({"a": dear, "b": cheap, "c": silent}, NOW_MS, 9000) == ()


A_MS, B_MS = 1, 2  # starts of two processes under one id


def beat(started_ms: int, **fields: Any) -> Heartbeat:
    return a_heartbeat(started_ms=started_ms, **fields)


def heard(*beats: Heartbeat) -> ReceivedHeartbeat:
    """What is known once these have come, 100 ms apart, the last of them now."""
    first, *others = beats
    known = ReceivedHeartbeat(first, NOW_MS - 100 * len(others))
    for left, each in zip(range(len(others) - 1, -1, -1), others, strict=True):
        known = known.then(each, NOW_MS - 100 * left)
    return known


def test_two_processes_that_send_heartbeats_in_turns_under_one_id_are_found_and_forgotten_once_one_is_silent() -> None:
    doubled = heard(beat(A_MS), beat(B_MS), beat(A_MS))
    assert doubled.is_doubled(NOW_MS, 3000)
    later = doubled.then(beat(A_MS), NOW_MS + 3001)
    assert (later.seen_ms, later.is_doubled(NOW_MS + 3001, 3000)) == (NOW_MS + 3001, False)


def test_a_process_that_another_replaces_is_no_second_one_and_its_last_word_ends_nothing() -> None:
    assert not heard(beat(A_MS), beat(A_MS), beat(B_MS), beat(B_MS)).is_doubled(NOW_MS, 3000)
    replaced = heard(beat(A_MS), beat(B_MS), beat(A_MS, state="stopped"))
    assert (replaced.heartbeat.state, replaced.is_doubled(NOW_MS, 3000)) == ("ready", False)


BEGUN = Begun("w-1", "heavy", NOW_MS - 20_000)


@pytest.mark.parametrize(
    ("worker", "is_served", "words"),
    [
        ((a_heartbeat(), 4000), True,
         "its worker w-1 has not reported for 4 s; it is generated again when the lease ends in 2 s"),
        ((a_heartbeat(), 14_000), True, "its worker w-1 has not reported for 14 s; it is generated again"),
        ((a_heartbeat(), 14_000), False, "its worker w-1 has not reported for 14 s; no worker serves heavy; it waits"),
        ((a_heartbeat(state="stopped"), 10), True, "its worker w-1 has stopped; it is generated again"),
        ((a_heartbeat(state="sick"), 10), True, "its worker w-1 is sick; it is generated again"),
        ((beat(NOW_MS - 9000), 10), True, "its worker w-1 was started anew; it is generated again"),
        (None, True, "its worker w-1 has not reported; it is generated again"),
    ],
    ids=["silent", "lease over", "none left", "stopped", "sick", "new process", "unheard of"],
)  # fmt: skip
def test_a_request_whose_worker_is_lost_says_what_became_of_it_and_what_comes_next(
    worker: tuple[Heartbeat, int] | None, is_served: bool, words: str
) -> None:
    beats = {"w-1": ReceivedHeartbeat(worker[0], NOW_MS - worker[1])} if worker else {}
    gone = lost(BEGUN, beats, NOW_MS, 3000, 6000)
    assert gone is not None
    assert gone.in_words(is_served=is_served, names_worker=True) == words


@pytest.mark.parametrize(("state", "ago_ms"), [("painting", 3000), ("hanging", 10), ("draining", 10)])
def test_a_request_whose_worker_lives_is_not_lost(state: str, ago_ms: int) -> None:
    beats = {"w-1": ReceivedHeartbeat(beat(NOW_MS - 60_000, state=state), NOW_MS - ago_ms)}
    assert lost(BEGUN, beats, NOW_MS, 3000, 6000) is None
