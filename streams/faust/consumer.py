"""Faust's consumer as these roles need it: committed records only, whatever their bytes, committed in order.

The one place between Faust and aiokafka. `App` is a `faust.App` whose consumer is the one below; what a secured cluster
wants of a client belongs into its `broker_credentials`.
"""

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
        """What to commit: behind the last acked. As acks come in order, what lies between two of them is no record.

        Faust's own waits for such offsets (transactions' markers, records that were aborted or deleted) where it did
        not see them passing, for ever, and lists them one by one where it did: a role that comes back after its topic's
        retention would list millions.
        """
        acked = self._acked[tp]
        if not acked:
            return None
        last = max(acked)
        acked.clear()
        self._acked_index[tp].clear()
        return int(last) + 1

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Nothing to remember: see `_new_offset`."""

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Nothing: Faust's own only logs, and raises where a partition's position is being looked up."""


class ConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """The thread in which aiokafka reads."""

    def _create_worker_consumer(self, transport: "Transport") -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = COMMITTED  # Faust ties its setting to transactions of its own producer
        return consumer

    def highwater(self, tp: TP) -> int:
        """For Faust's monitor only; 0 where the partition has just been lost, which would end the app."""
        try:
            return super().highwater(tp) or 0
        except (AssertionError, AttributeError):
            return 0


class Transport(driver.Transport):  # type: ignore[misc]
    """Faust's own, with the consumer above."""

    Consumer = Consumer


class App(faust.App):  # type: ignore[misc]
    """A `faust.App` that reads by the consumer above."""

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)
