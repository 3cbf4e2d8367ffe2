# ruff: noqa: ARG002  the ports name their arguments
"""The heartbeat: what it reports, and that it goes on whatever happens to one beat."""

import threading
import time
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaException

from agents.worker import heartbeat
from agents.worker.heartbeat import Heart, WorkerState
from planner.observation.run_times import MIN_CALLS
from planner.serving.dispatch.worker import WorkerLogic
from schemas.messages import Heartbeat, OwnedPartition, ReuseHealth
from schemas.record import Delivered, Outgoing
from schemas.topics import FLEET
from tests.agents.stubs import read
from tests.builders import a_variant, owned
from tests.memory_kafka import MemoryRecordProducer
from tests.patience import PATIENCE_S


class Listening(MemoryRecordProducer):
    """Signals when `count` heartbeats were sent; fails the first sends that it is asked to."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.failures, self.heard = failures, threading.Semaphore(0)

    def send(self, record: Outgoing) -> "Future[Delivered]":
        if self.failures:
            self.failures -= 1
            raise KeyError("no such thing")
        sent = super().send(record)
        self.heard.release()
        return sent

    @property
    def beats(self) -> list[Heartbeat]:
        return [read(record, Heartbeat) for record in self.topics.get(FLEET, [])]


class FixedSource:
    def __init__(self, *partitions: OwnedPartition, error: Exception | None = None) -> None:
        self._partitions, self._error = partitions, error

    def owned(self, run_ms: float) -> tuple[OwnedPartition, ...]:
        if self._error:
            raise self._error
        return self._partitions


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "MIN_BEAT_MS", 0.001)


def test_it_beats_until_closed_and_then_says_goodbye() -> None:
    producer = Listening()
    heart = Heart(WorkerState("w-1", state="ready"), producer, 1).start()
    for _ in range(3):
        assert producer.heard.acquire(timeout=PATIENCE_S)
    heart.close()
    assert [beat.state for beat in producer.beats[:3]] == ["ready"] * 3
    assert producer.beats[-1].state == "stopped"
    assert {beat.worker_id for beat in producer.beats} == {"w-1"}


def test_a_change_is_reported_without_waiting_for_the_period() -> None:
    producer, state = Listening(), WorkerState("w-1", state="loading")
    heart = Heart(state, producer, 60_000).start()
    assert producer.heard.acquire(timeout=PATIENCE_S)
    state.state = "ready"
    heart.beat_now()
    assert producer.heard.acquire(timeout=PATIENCE_S)
    heart.close()
    assert [beat.state for beat in producer.beats] == ["loading", "ready", "stopped"]


def test_a_beat_that_fails_does_not_silence_the_worker() -> None:
    producer = Listening(failures=2)
    heart = Heart(WorkerState("w-1"), producer, 1).start()
    assert producer.heard.acquire(timeout=PATIENCE_S)
    heart.close()


def test_positions_that_cannot_be_had_leave_a_heartbeat_without_them() -> None:
    producer = Listening()
    source = FixedSource(error=KafkaException("closing"))
    heart = Heart(
        WorkerState("w-1", state="ready", variant=a_variant(), logic=WorkerLogic(a_variant()), source=source),
        producer,
        60_000,
    ).start()
    assert producer.heard.acquire(timeout=PATIENCE_S)
    heart.close()
    assert producer.beats[0].partitions == ()


def a_busy_logic(in_hand_ms: float) -> WorkerLogic:
    """Of a worker with a window in hand that is to take so long."""
    logic = WorkerLogic(a_variant())
    logic.on_loading(in_hand_ms - logic.begin([1], 1).run_ms)
    return logic


def test_the_batch_in_hand_counts_once_on_top_of_what_waits_and_the_slowness_of_calls_is_told() -> None:
    producer = Listening()
    state = WorkerState("w-1", logic=a_busy_logic(60_000), source=FixedSource(owned(0, 9, 100), owned(1, 4)))
    assert state.logic is not None
    for _ in range(MIN_CALLS):
        state.logic.on_generated(30.0, 20.0)
    state.watchdog.begin()
    heart = Heart(state, producer, 60_000).start()
    assert producer.heard.acquire(timeout=PATIENCE_S)
    heart.close()
    state.watchdog.end()
    first, second = producer.beats[0].partitions
    assert 50_000 < first.remaining_ms <= 60_100
    assert (second.remaining_ms, second.end_offset) == (0, 4)
    assert producer.beats[0].slowness == 1.5


def test_a_heartbeat_states_what_its_worker_costs() -> None:
    producer = Listening()
    Heart(WorkerState("w-1", price_per_hour=2.5), producer, 60_000).start().close()
    assert producer.beats[-1].price_per_hour == 2.5


def test_a_worker_whose_call_hangs_says_so_and_is_not_told_to_be_free() -> None:
    producer = Listening()
    state = WorkerState(
        "w-1",
        "painting",
        a_variant(),
        logic=a_busy_logic(200),
        source=FixedSource(owned(0, 9, 100)),
    )
    state.watchdog.begin()
    state.watchdog.since = time.monotonic() - 60
    heart = Heart(state, producer, 60_000).start()
    assert producer.heard.acquire(timeout=PATIENCE_S)
    state.watchdog.end()
    heart.beat_now()
    assert producer.heard.acquire(timeout=PATIENCE_S)
    heart.close()
    assert [beat.state for beat in producer.beats] == ["hanging", "painting", "stopped"]
    assert [beat.partitions[0].remaining_ms for beat in producer.beats[:2]] == [300, 100]


def test_jobs_that_wait_are_counted_at_the_pace_of_those_of_late() -> None:
    class OneWaits(FixedSource):
        def owned(self, run_ms: float) -> tuple[OwnedPartition, ...]:
            return (owned(0, 1, round(run_ms)),)

    producer = Listening()
    logic = WorkerLogic(a_variant())  # light takes 20 ms by itself
    logic.reported_pace = 0.5
    state = WorkerState("w-1", variant=a_variant(), logic=logic, source=OneWaits())
    heart = Heart(state, producer, 60_000).start()
    assert producer.heard.acquire(timeout=PATIENCE_S)
    heart.close()
    assert producer.beats[0].partitions[0].remaining_ms == 10


def test_it_reports_the_lookups_of_stored_latents_once_they_are_open() -> None:
    class Lookups:
        def health(self) -> ReuseHealth | None:
            return ReuseHealth(breaker="closed", lookups=3, unanswered=0.0, p50_ms=1.0, p95_ms=2.0, hits=2)

    producer = Listening()
    state = WorkerState("w-1", state="ready", reuse=Lookups())  # type: ignore[arg-type]
    heart = Heart(state, producer, 1).start()
    assert producer.heard.acquire(timeout=PATIENCE_S)
    heart.close()
    reported = producer.beats[0].reuse
    assert reported is not None
    assert (reported.breaker, reported.hits) == ("closed", 2)
