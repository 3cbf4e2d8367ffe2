"""Waiting jobs and arrival rates of variants, from heartbeats."""

from dataclasses import replace

import pytest

from planner.observation.observation import Queue
from planner.observation.queues import QUEUE_WINDOW_MS, QueueGrowth
from planner.observation.workers import ReceivedHeartbeat
from schemas.messages import Heartbeat, Route
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_plan, owned


def beats(after_ms: int, *heartbeats: Heartbeat) -> dict[str, ReceivedHeartbeat]:
    return {beat.worker_id: ReceivedHeartbeat(beat, NOW_MS + after_ms) for beat in heartbeats}


def test_a_partition_that_grows_tells_how_fast_jobs_join_whatever_is_in_flight() -> None:
    growth = QueueGrowth()
    for second in range(11):
        growth.update_from_heartbeats(
            beats(1000 * second, a_heartbeat(partitions=(owned(0, 100 + 7 * second), owned(1, 3 * second))))
        )
    (queue,) = growth.queues(beats(10_000, a_heartbeat()), ["w-1"], a_catalog())
    assert queue == Queue("light", 0.0, pytest.approx(10.0))


def test_only_the_window_counts() -> None:
    growth = QueueGrowth()
    for second in range(0, 100):
        end = 1000 * second if second < 50 else 50_000
        growth.update_from_heartbeats(beats(1000 * second, a_heartbeat(partitions=(owned(0, end),))))
    (queue,) = growth.queues(beats(99_000, a_heartbeat()), ["w-1"], a_catalog())
    assert queue.arriving_rps == 0.0
    assert QUEUE_WINDOW_MS < 49_000


def test_remaining_work_is_reported_in_jobs_and_the_one_in_hand_does_not_wait() -> None:
    heard = beats(
        0,
        a_heartbeat(partitions=(owned(0, remaining_ms=100),)),
        a_heartbeat(worker_id="w-2", state="painting", partitions=(owned(1, remaining_ms=60),)),
        a_heartbeat(worker_id="w-3", variant="heavy", partitions=(owned(0, remaining_ms=400),)),
        a_heartbeat(worker_id="w-4", variant="", partitions=()),
    )
    queues = QueueGrowth().queues(heard, heard, a_catalog())
    assert queues == (Queue("heavy", 2.0, 0.0), Queue("light", 5.0 + 2.0, 0.0))


def test_a_worker_that_is_not_live_any_more_does_not_count() -> None:
    heard = beats(0, a_heartbeat(partitions=(owned(0, remaining_ms=100),)))
    assert QueueGrowth().queues(heard, [], a_catalog()) == ()


def test_one_sample_tells_no_rate() -> None:
    growth = QueueGrowth()
    heard = beats(0, a_heartbeat(partitions=(owned(0, 500),)))
    growth.update_from_heartbeats(heard)
    growth.update_from_heartbeats(heard)
    assert growth.queues(heard, ["w-1"], a_catalog()) == (Queue("light", 0.0, 0.0),)


def test_jobs_that_wait_for_workers_that_load_are_what_nobody_else_has() -> None:
    """Ten requests have no result: light's worker has three jobs, one of them in its call."""
    busy = a_heartbeat(worker_id="a", variant="light", state="painting", partitions=(owned(0, 9, 40),))
    loads = a_heartbeat(worker_id="b", variant="heavy", state="loading", partitions=())
    beats = {beat.worker_id: ReceivedHeartbeat(beat, NOW_MS) for beat in (busy, loads)}
    plan = a_plan(allocation={"a": "light", "b": "heavy"})
    growth = QueueGrowth()
    assert growth.unserved(beats, beats, a_catalog(), plan, open_requests=10) == {"heavy": 7.0}
    assert growth.unserved(beats, beats, a_catalog(), plan, open_requests=2) == {"heavy": 0.0}
    serves = {**beats, "b": ReceivedHeartbeat(replace(loads, state="ready"), NOW_MS)}
    assert growth.unserved(serves, serves, a_catalog(), plan, open_requests=10) == {}
    assert growth.unserved(beats, beats, a_catalog(), None, open_requests=10) == {}


def test_of_several_variants_whose_workers_load_each_has_its_share_of_the_plan() -> None:
    plan = a_plan(allocation={"a": "light", "b": "heavy"}, routes=(Route(levels={"light": 0.25, "heavy": 0.75}),))
    loads = [a_heartbeat(worker_id=w, variant=v, state="loading", partitions=()) for w, v in plan.allocation.items()]
    beats = {beat.worker_id: ReceivedHeartbeat(beat, NOW_MS) for beat in loads}
    assert QueueGrowth().unserved(beats, beats, a_catalog(), plan, 8) == {"light": 2.0, "heavy": 6.0}


def test_jobs_that_are_held_before_a_variants_workers_wait_too() -> None:
    growth = QueueGrowth()
    growth.held = {"light": 7, "heavy": 3}.__getitem__
    (queue,) = growth.queues(beats(0, a_heartbeat()), ["w-1"], a_catalog())
    assert queue == Queue("light", 7.0, 0.0)
