"""Faust's consumer as these roles need it: committed records only, whatever their bytes, committed in order.

The one place between Faust and aiokafka. `App` is a `faust.App` whose consumer is the one below; what a secured cluster
wants of a client belongs into its `broker_credentials`.
"""

import asyncio
import contextlib
from collections.abc import Mapping

import faust
from aiokafka import AIOKafkaConsumer
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from streams.faust import record_sets

COMMITTED = "read_committed"  # what an aborted transaction wrote was never said

record_sets.install()


class Consumer(driver.Consumer):  # type: ignore[misc]  # faust is not followed
    """Faust's own, under the host's rule: a partition's records are acked in the order of their offsets."""

    def _new_consumer_thread(self) -> "ConsumerThread":
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _new_offset(self, tp: TP) -> int | None:
        """Return the offset to commit: one after the last acked. Acks come in order, so gaps hold no record.

        Faust's own version waits for ever for offsets in a gap (transaction markers, aborted or deleted records) that
        it did not see, and lists those that it saw one by one: a role that comes back after its topic's retention
        would list millions.
        """
        acked = self._acked[tp]
        if not acked:
            return None
        last = max(acked)
        acked.clear()
        self._acked_index[tp].clear()
        return int(last) + 1

    def hold(self, tp: TP) -> None:
        """Fetch nothing more of a partition; what was fetched is handed over all the same.

        Faust's own pause drops what it has fetched, and does not fetch it again.
        """
        self.pause_partitions([tp])
        self._buffered_partitions.add(tp)

    def release(self, tp: TP, *, is_ours: bool) -> None:
        """Fetch of a held partition again, if it is still this member's; else Faust resumes what is."""
        self._buffered_partitions.discard(tp)
        if is_ours:
            self.resume_partitions([tp])

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Do nothing: `_new_offset` needs no gaps."""

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: Faust's own version only logs, and raises while a partition's position is being looked up."""


class ConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """The thread in which aiokafka reads."""

    def _create_worker_consumer(self, transport: "Transport") -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = COMMITTED  # Faust ties its setting to transactions of its own producer
        return consumer

    async def on_thread_stop(self) -> None:
        """Close aiokafka's client, which without a broker raises its tasks' cancellation: Faust would wait for ever."""
        with contextlib.suppress(asyncio.CancelledError):
            await super().on_thread_stop()

    async def seek_to_committed(self) -> Mapping[TP, int | None]:
        """Seek each partition to its committed offset, or to its first where nothing is committed; return the former.

        Faust calls it where it drops what it has fetched, as partitions move.
        """
        committed: Mapping[TP, int | None] = await self.call_thread(seek_to_committed, self._ensure_consumer())
        return committed

    def highwater(self, tp: TP) -> int:
        """Return the end of a partition for Faust's monitor; 0 for a lost partition, where Faust's own ends the app."""
        try:
            return super().highwater(tp) or 0
        except (AssertionError, AttributeError):
            return 0


async def seek_to_committed(consumer: AIOKafkaConsumer) -> Mapping[TP, int | None]:
    """Seek the assigned partitions to their committed offsets, or to their first; return the former.

    aiokafka's own leaves a partition without a committed offset where it stands: behind what was fetched and dropped.
    """
    committed: Mapping[TP, int | None] = await consumer.seek_to_committed()
    if untouched := [place for place, offset in committed.items() if not offset]:
        await consumer.seek_to_beginning(*untouched)
    return committed


class Transport(driver.Transport):  # type: ignore[misc]
    """Faust's own, with the consumer above."""

    Consumer = Consumer


class App(faust.App):  # type: ignore[misc]
    """A `faust.App` that reads with `Consumer`."""

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)
