"""Faust's consumer as these roles use it: what it reads, and what it commits."""

import asyncio
import pathlib
from collections.abc import Callable
from unittest import mock

import pytest
from aiokafka.consumer import fetcher
from faust.types import TP

from streams.faust.consumer import App, Consumer, ConsumerThread
from streams.faust.record_sets import ReadableRecords, RecordSet
from tests.patience import PATIENCE_S

HERE = TP("pochade.prompts.v1", 0)


@pytest.fixture
def app(tmp_path: pathlib.Path) -> App:
    return App("test.role", broker="kafka://127.0.0.1:1", datadir=str(tmp_path), web_enabled=False, store="memory://")


def in_a_loop(app: App, check: Callable[[Consumer], None]) -> None:
    async def scenario() -> None:
        check(app.consumer)

    asyncio.run(scenario())


def test_only_what_is_committed_is_read_and_whatever_its_bytes(app: App) -> None:
    def check(consumer: Consumer) -> None:
        thread = consumer._thread
        assert isinstance(thread, ConsumerThread)
        assert thread._create_worker_consumer(app.transport)._isolation_level == "read_committed"

    in_a_loop(app, check)
    assert (fetcher.MemoryRecords, fetcher.PartitionRecords) == (RecordSet, ReadableRecords)


def acked(consumer: Consumer, *offsets: int) -> None:
    for offset in offsets:
        consumer._acked[HERE].append(offset)
        consumer._acked_index[HERE].add(offset)


@pytest.mark.parametrize("committed", [None, 1, 4])
def test_offsets_at_which_no_record_lies_are_committed_over(app: App, committed: int | None) -> None:
    # transactions leave markers and aborted records: the role would begin at the first gap after each restart
    def check(consumer: Consumer) -> None:
        consumer._committed_offset[HERE] = committed
        acked(consumer, 5, 6, 90)
        assert consumer._new_offset(HERE) == 91
        assert consumer._new_offset(HERE) is None
        acked(consumer, 93)
        assert consumer._new_offset(HERE) == 94

    in_a_loop(app, check)


def test_millions_of_deleted_offsets_are_not_listed_one_by_one(app: App) -> None:
    # a role that was away for longer than its topic's retention
    def check(consumer: Consumer) -> None:
        consumer._committed_offset[HERE] = 10
        coroutine = consumer._add_gap(HERE, 11, 10**12)
        with pytest.raises(StopIteration):
            coroutine.send(None)
        acked(consumer, 10**12 + 1)
        assert consumer._new_offset(HERE) == 10**12 + 2

    in_a_loop(app, check)


def test_a_partition_whose_position_is_not_known_ends_no_app(app: App) -> None:
    # found by freezing a broker: Faust's look for slow partitions raised while one of them was being looked up
    in_a_loop(app, lambda consumer: consumer.verify_event_path(0.0, HERE))


def test_the_end_of_a_partition_that_was_just_lost_ends_no_app(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost:
        def highwater(self, _: TP) -> int:
            raise AssertionError("Partition is not assigned")

    def check(consumer: Consumer) -> None:
        monkeypatch.setattr(consumer._thread, "_consumer", Lost())
        assert consumer._thread.highwater(HERE) == 0

    in_a_loop(app, check)


def test_where_nothing_is_committed_a_role_seeks_to_the_first_record(app: App) -> None:
    # what is fetched while partitions move is dropped: the first records of a group without offsets were never served
    sought: list[TP] = []

    class Fresh:
        async def seek_to_committed(self) -> dict[TP, int | None]:
            return {HERE: None, TP(HERE.topic, 1): 7}

        async def seek_to_beginning(self, *places: TP) -> None:
            sought.extend(places)

    async def scenario() -> None:
        thread = app.consumer._thread
        thread._consumer = Fresh()
        with mock.patch.object(thread, "call_thread", lambda call, *arguments: call(*arguments)):
            assert await thread.seek_to_committed() == {HERE: None, TP(HERE.topic, 1): 7}

    asyncio.run(scenario())
    assert sought == [HERE]


def test_what_was_fetched_of_a_partition_that_is_held_is_handed_over_all_the_same(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        consumer = app.consumer
        consumer.flow_active = True
        consumer._set_active_tps({HERE})
        fetched = mock.AsyncMock(return_value=({HERE: [1, 2, 3]}, consumer._get_active_partitions()))
        monkeypatch.setattr(consumer, "_wait_next_records", fetched)
        monkeypatch.setattr(consumer, "_to_message", lambda _tp, record: record)
        monkeypatch.setattr(consumer, "highwater", lambda _tp: 3)
        seen = []
        async for _, record in consumer.getmany(1.0):
            seen.append(record)
            consumer.hold(HERE)
        assert (seen, consumer._get_active_partitions()) == ([1, 2, 3], set())
        consumer.release(HERE, is_ours=True)
        assert consumer._get_active_partitions() == {HERE}

    asyncio.run(scenario())


def test_a_thread_that_reads_ends_also_where_no_broker_answers(app: App) -> None:
    async def cancelled_by_its_own_tasks() -> None:  # as aiokafka's fetcher, whose tasks wait until they try again
        waiting = asyncio.create_task(asyncio.sleep(PATIENCE_S))
        await asyncio.sleep(0)
        waiting.cancel()
        await waiting

    async def scenario() -> None:
        thread = app.consumer._thread
        thread._consumer = mock.Mock(stop=cancelled_by_its_own_tasks)
        await thread.on_thread_stop()

    asyncio.run(scenario())
