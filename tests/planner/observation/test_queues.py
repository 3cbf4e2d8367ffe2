"""Waiting jobs and arrival rates of variants, from heartbeats."""

import pytest

from planner.observation.observation import Queue
from planner.observation.queues import QUEUE_WINDOW_MS, QueueGrowth
from planner.observation.workers import ReceivedHeartbeat
from schemas.messages import Heartbeat
from tests.builders import NOW_MS, a_catalog, a_heartbeat, owned


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
