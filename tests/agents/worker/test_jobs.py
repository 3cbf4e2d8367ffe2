# ruff: noqa: ARG002  the ports name their arguments
"""A worker's job source on a scripted consumer: attempts, batches, and partitions taken away meanwhile."""

import random
import time
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from agents.worker import jobs as job_source
from agents.worker.jobs import JobSource
from planner.serving.dispatch.worker import MAX_DEATHS, has_killed_enough
from schemas.messages import OwnedPartition
from streams.kafka.consumers import consumer_factory
from streams.settings import Settings, load

TOPIC = "pochade.jobs.light.v1"
PARTITIONS, JOBS = 3, 6


def a_message(partition: int, offset: int) -> Message:
    """A job as the client hands it out."""
    return Message(topic=TOPIC, partition=partition, offset=offset, key=b"k", value=b"v", timestamp=(1, 5))


class FakeConsumer:
    """Hands out `log` in order; a callable in it is called instead, as a rebalance within a poll is."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.log: list[Any] = []
        self.metadata: dict[int, tuple[int, str]] = {}
        self.committed_to: list[tuple[int, int, str]] = []
        self.failure: KafkaException | None = None

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.gain, self.lose = callbacks["on_assign"], callbacks["on_revoke"]

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(tp.topic, tp.partition, *self.metadata.get(tp.partition, (-1001,))) for tp in partitions]

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        return (0, 0)

    def _next(self) -> Message | None:
        while self.log and callable(self.log[0]):
            self.log.pop(0)()
        return self.log.pop(0) if self.log else None

    def poll(self, timeout: float) -> Message | None:
        return self._next()

    def consume(self, most: int, timeout: float) -> list[Message]:
        return [m for m in (self._next() for _ in range(most)) if m is not None]

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        if self.failure is not None:
            raise self.failure
        self.committed_to += [(tp.partition, tp.offset, tp.metadata) for tp in offsets]


class FakeEnds:
    """Every partition ends at 9, as far as its leader answers."""

    def __init__(self, settings: Settings) -> None:
        self.away: set[int] = set()

    def of(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        return dict.fromkeys(set(partitions) - self.away, 9)


@pytest.fixture
def new_source(monkeypatch: pytest.MonkeyPatch) -> Callable[[], JobSource]:
    monkeypatch.setattr(consumer_factory, "Consumer", FakeConsumer)
    monkeypatch.setattr(job_source, "LogEnds", FakeEnds)
    monkeypatch.setattr(job_source, "member_config", lambda *_: {})
    return lambda: JobSource(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), "light")


@pytest.fixture
def source(new_source: Callable[[], JobSource]) -> JobSource:
    return new_source()


@pytest.fixture
def consumer(source: JobSource) -> FakeConsumer:
    return source._consumer  # type: ignore[return-value]


def own(consumer: FakeConsumer, *partitions: int) -> None:
    consumer.gain(consumer, [TopicPartition(TOPIC, p) for p in partitions])


def places(batch: list[job_source.Taken]) -> list[tuple[int, int, int]]:
    return [(taken.record.partition, taken.record.offset, taken.attempt) for taken in batch]


def test_a_batch_over_partitions_commits_past_the_last_of_each(source: JobSource, consumer: FakeConsumer) -> None:
    own(consumer, 0, 1)
    consumer.log = [a_message(0, 5), a_message(1, 8), a_message(0, 6)]
    batch = source.take(4, 0)
    source.begin(batch)
    source.commit(batch)
    assert places(batch) == [(0, 5, 1), (1, 8, 1), (0, 6, 1)]
    assert consumer.committed_to == [
        (0, 5, "attempt=0 until=7"), (1, 8, "attempt=0 until=9"), (0, 7, ""), (1, 9, ""),
    ]  # fmt: skip


def test_a_partition_whose_place_is_still_looked_for_holds_no_work(
    source: JobSource, consumer: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat is sent from another thread meanwhile; routers rejected requests for 80 s of work."""
    seen: list[tuple[Any, ...]] = []

    def watermarks(*_: object, timeout: float) -> tuple[int, int]:  # noqa: ARG001
        seen.append(source.owned(20.0))
        return (0, 0)

    monkeypatch.setattr(consumer, "get_watermark_offsets", watermarks)
    own(consumer, 0, 1)
    assert seen
    assert set(seen) == {()}
    assert [owned.partition for owned in source.owned(20.0)] == [0, 1]


def test_a_source_has_joined_once_it_owns_partitions_and_a_spare_one_after_a_session(
    source: JobSource, consumer: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not source.has_joined
    own(consumer, 0)
    assert source.has_joined
    consumer.lose(consumer, [TopicPartition(TOPIC, 0)])
    assert not source.has_joined
    later_s = time.monotonic() + load({}).kafka.session_timeout_ms / 1000
    monkeypatch.setattr(job_source, "time", SimpleNamespace(monotonic=lambda: later_s))
    assert source.has_joined


def worked(source: JobSource, most: int = 4) -> list[tuple[int, int, int]]:
    """One window, generated."""
    batch = source.take(most, 0)
    source.begin(batch)
    source.commit(batch)
    return places(batch)


def test_what_a_dead_owner_had_in_hand_comes_one_by_one_and_its_first_with_its_attempts(
    source: JobSource, consumer: FakeConsumer
) -> None:
    consumer.metadata = {0: (5, "attempt=2 until=7")}
    own(consumer, 0)
    consumer.log = [a_message(0, offset) for offset in range(5, 9)]
    assert [worked(source) for _ in range(3)] == [[(0, 5, 3)], [(0, 6, 2)], [(0, 7, 1), (0, 8, 1)]]
    begun = ["attempt=3 until=7", "attempt=2 until=7", "attempt=0 until=9"]
    assert [reported for _, _, reported in consumer.committed_to[::2]] == begun
    assert consumer.committed_to[1::2] == [(0, 6, "attempt=0 until=7"), (0, 7, ""), (0, 9, "")]


@pytest.mark.parametrize(("kept", "attempts"), [("", 0), ("attempt=2 until=6", 2)])
def test_who_dies_while_it_waits_for_something_else_is_no_owner_that_a_job_has_killed(
    source: JobSource, consumer: FakeConsumer, kept: str, attempts: int
) -> None:
    consumer.metadata = {0: (5, kept)}
    own(consumer, 0)
    consumer.log = [a_message(0, 5)]
    batch = source.take(1, 0)
    source.begin(batch)
    source.absolve(batch)
    assert [reported for _, _, reported in consumer.committed_to] == [
        f"attempt={attempts + 1} until=6", kept,
    ]  # fmt: skip


def test_one_by_one_holds_for_all_partitions_until_the_last_suspect_is_done(
    source: JobSource, consumer: FakeConsumer
) -> None:
    consumer.metadata = {0: (5, "attempt=0 until=6"), 1: (8, "attempt=2 until=9")}
    own(consumer, 0, 1)
    consumer.log = [a_message(0, 5), a_message(0, 6), a_message(1, 8), a_message(0, 7), a_message(1, 9)]
    assert [worked(source) for _ in range(4)] == [[(0, 5, 2)], [(0, 6, 1)], [(1, 8, 3)], [(0, 7, 1), (1, 9, 1)]]


def test_a_suspect_is_alone_also_in_the_poll_that_gains_its_partition(
    source: JobSource, consumer: FakeConsumer
) -> None:
    consumer.metadata = {0: (5, "attempt=2 until=6")}
    own(consumer, 1)
    gain = lambda: own(consumer, 0)  # noqa: E731
    consumer.log = [a_message(1, 8), gain, a_message(0, 5), a_message(0, 6), a_message(1, 9)]
    assert [worked(source) for _ in range(3)] == [[(1, 8, 1)], [(0, 5, 3)], [(0, 6, 1), (1, 9, 1)]]


def test_jobs_that_wait_for_a_suspect_go_with_their_partition(source: JobSource, consumer: FakeConsumer) -> None:
    consumer.metadata = {0: (5, "attempt=1 until=6")}
    gain = lambda: own(consumer, 0, 1)  # noqa: E731
    lose = lambda: consumer.lose(consumer, [TopicPartition(TOPIC, 0)])  # noqa: E731
    consumer.log = [gain, a_message(0, 5), a_message(0, 6), a_message(1, 8)]
    assert worked(source) == [(0, 5, 2)]
    consumer.log = [lose, a_message(1, 9)]
    assert worked(source) == [(1, 8, 1), (1, 9, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_a_killer_meets_two_owners_and_jobs_beside_it_one_however_partitions_wander(
    new_source: Callable[[], JobSource], seed: int
) -> None:
    chance = random.Random(seed)
    killers = {(chance.randrange(PARTITIONS), chance.randrange(JOBS)) for _ in range(2)}
    kept: dict[int, tuple[int, str]] = {}
    counted: Counter[tuple[int, int]] = Counter()
    deaths = 0
    while any(kept.get(p, (0, ""))[0] < JOBS for p in range(PARTITIONS)):
        source = new_source()
        consumer: FakeConsumer = source._consumer  # type: ignore[assignment]
        consumer.metadata = dict(kept)
        consumer.log = wandering(consumer, kept, chance)
        while batch := source.take(chance.randint(1, 5), 0):
            source.begin(batch)
            counted |= Counter({(p, offset): attempt for p, offset, attempt in places(batch)})
            dead = any(
                (p, offset) in killers and not has_killed_enough(attempt) for p, offset, attempt in places(batch)
            )
            if not dead:
                source.commit(batch)
            kept |= {p: (offset, reported) for p, offset, reported in consumer.committed_to}
            if dead:
                deaths += 1
                break
    assert {place for place, attempts in counted.items() if has_killed_enough(attempts)} == killers
    assert max(counted.values()) == MAX_DEATHS + 1
    assert deaths <= len(killers) * MAX_DEATHS


def wandering(consumer: FakeConsumer, kept: dict[int, tuple[int, str]], chance: random.Random) -> list[Any]:
    """What a worker polls that gains some partitions one after the other, each with its jobs from where it stands."""
    streams = []
    for p in chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS)):
        jobs = [a_message(p, offset) for offset in range(kept.get(p, (0, ""))[0], JOBS)]
        streams.append([partial(own, consumer, p), *jobs])
    log = []
    while streams:
        stream = chance.choice(streams)
        log.append(stream.pop(0))
        streams = [each for each in streams if each]
    return log


def test_what_was_polled_and_waits_for_a_suspect_counts_as_work_that_lies_there(
    source: JobSource, consumer: FakeConsumer
) -> None:
    consumer.metadata = {0: (5, "attempt=1 until=6")}
    own(consumer, 0)
    consumer.log = [a_message(0, offset) for offset in range(5, 9)]
    assert places(source.take(4, 0)) == [(0, 5, 2)]
    assert source.owned(100) == (OwnedPartition(partition=0, end_offset=9, remaining_ms=300),)
    assert not source.is_empty()


def test_a_partition_whose_end_is_unknown_is_not_taken_for_empty(source: JobSource, consumer: FakeConsumer) -> None:
    own(consumer, 0, 1)
    consumer.log = [a_message(p, offset) for p in (0, 1) for offset in range(9)]
    source.take(18, 0)
    assert source.is_empty()
    source._ends.away = {1}  # type: ignore[attr-defined]
    assert not source.is_empty()


def test_attempts_belong_to_their_offset_only(source: JobSource, consumer: FakeConsumer) -> None:
    consumer.metadata = {0: (5, "attempt=2 until=6")}
    own(consumer, 0)
    consumer.log = [a_message(0, 9)]  # 5 to 8 were deleted by retention
    assert places(source.take(1, 0)) == [(0, 9, 1)]


def test_jobs_of_a_partition_taken_away_meanwhile_are_left_to_its_new_owner(
    source: JobSource, consumer: FakeConsumer
) -> None:
    own(consumer, 0, 1)
    lose = lambda: consumer.lose(consumer, [TopicPartition(TOPIC, 0)])  # noqa: E731
    consumer.log = [a_message(0, 5), lose, a_message(1, 8)]
    assert places(source.take(4, 0)) == [(1, 8, 1)]
    assert source._next == {1: 9}


def test_a_refused_commit_is_survived(source: JobSource, consumer: FakeConsumer) -> None:
    own(consumer, 0)
    consumer.log = [a_message(0, 5), a_message(0, 6)]
    consumer.failure = KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
    batch = source.take(1, 0)
    source.begin(batch)
    source.commit(batch)
    assert places(source.take(1, 0)) == [(0, 6, 1)]


def test_partitions_that_are_handed_over_at_the_end_are_not_asked_about(
    source: JobSource, consumer: FakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # found by chaos: the question hung for 10 s, as long as a process has to end, and the jobs there with it
    def hang(*_partitions: object, timeout: float) -> None:
        pytest.fail(f"a consumer that is being closed answers nothing, and this waits for {timeout} s")

    monkeypatch.setattr(consumer, "committed", hang)
    monkeypatch.setattr(consumer, "close", lambda: own(consumer, 0), raising=False)
    source.close()


def test_jobs_that_join_others_commit_what_is_done_before_the_first_in_flight(
    source: JobSource, consumer: FakeConsumer
) -> None:
    own(consumer, 0)
    consumer.log = [a_message(0, offset) for offset in range(5, 10)]
    window = source.take(3, 0)
    source.begin(window)
    joining = source.take(2, 0, join=True)
    source.begin([*window[1:], *joining])  # 5 is done
    assert places(joining) == [(0, 8, 1), (0, 9, 1)]
    assert consumer.committed_to == [(0, 5, "attempt=0 until=8"), (0, 6, "attempt=0 until=10")]


def test_a_job_that_is_to_be_alone_joins_none_and_is_taken_after_them(
    source: JobSource, consumer: FakeConsumer
) -> None:
    own(consumer, 0)
    consumer.log = [a_message(0, 5)]
    window = source.take(1, 0)
    source.begin(window)
    consumer.metadata = {1: (8, "attempt=0 until=10")}  # of a dead owner, whose partition comes within the poll
    consumer.log = [lambda: own(consumer, 1), a_message(1, 8), a_message(1, 9), a_message(0, 6)]
    assert source.take(4, 0, join=True) == []
    source.commit(window)
    assert places(source.take(4, 0)) == [(1, 8, 2)]


def test_a_partition_that_went_while_jobs_joined_is_its_new_owner_s_to_commit(
    source: JobSource, consumer: FakeConsumer
) -> None:
    """Its commit would be accepted, and set back the new owner's place."""
    own(consumer, 0, 1)
    consumer.log = [a_message(0, 5), a_message(1, 8)]
    window = source.take(2, 0)
    source.begin(window)
    consumer.log = [lambda: consumer.lose(consumer, [TopicPartition(TOPIC, 1)]), a_message(0, 6)]
    joining = source.take(2, 0, join=True)
    consumer.committed_to.clear()
    source.begin([*window, *joining])
    source.commit([*window, *joining])
    assert consumer.committed_to == [(0, 5, "attempt=0 until=7"), (0, 7, "")]
