"""Chooses the one gateway that delivers webhooks: the consumer group's owner of the topic's only partition.

If it dies, another gets the partition within `kafka.session_timeout_ms`. One that was frozen may deliver for a moment
beside its successor, so webhooks may come twice with the same id; the standard has receivers expect that.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from schemas.errors import PochadeError
from schemas.topics import WEBHOOKS, webhooks_group
from streams import metrics
from streams.kafka.clients import topic_name
from streams.kafka.consumers.consumer_factory import open_member
from streams.kafka.consumers.polling import poll_records
from streams.kafka.groups.groups import member_config
from streams.kafka.groups.members import IdleMember
from streams.settings import Settings

log = logging.getLogger(__name__)

POLL_S: Final = 0.2  # between two looks at whether it shall stop
JOIN_RETRY_S: Final = 1.0  # until a member that was refused tries again
CLOSE_S: Final = 10.0


class Turn:
    """One gateway's membership in the group; it joins with `start`, so without webhooks the broker has no group."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks-turn", daemon=True)
        self._ring: Callable[[], None] = lambda: None
        self.is_ours = False

    def start(self, ring: Callable[[], None]) -> None:
        """Join the group unless it has. `ring` is called from another thread when `is_ours` has changed."""
        if not self._thread.is_alive() and not self._stopping.is_set():
            self._ring = ring
            self._thread.start()

    def close(self) -> None:
        """Leave the group at once, so that another gateway continues."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._stay()
            except (KafkaException, PochadeError) as error:
                metrics.FALLBACKS.labels("gateway", "webhooks-turn").inc()
                log.warning("no member of the group that delivers webhooks, retrying: %s", error)
                self._stopping.wait(JOIN_RETRY_S)

    def _stay(self) -> None:
        group = webhooks_group(self._settings.kafka.prefix)
        own = {"auto.offset.reset": "latest"}  # it reads nothing: `OpenWebhooks` knows what the topic says
        consumer = open_member(member_config(self._settings, group), own)
        idle = IdleMember(self._settings, group)
        try:
            consumer.subscribe(
                [topic_name(self._settings, WEBHOOKS)], on_assign=self._gain, on_revoke=self._lose, on_lost=self._lose
            )
            while not self._stopping.is_set():
                poll_records(consumer, 1, POLL_S)
                consumer.pause(consumer.assignment())
                idle.check(consumer, int(self.is_ours), is_served=True)  # it reads nothing
        finally:
            self._set(is_ours=False)
            consumer.close()

    def _gain(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions and not self._stopping.is_set():
            log.info("this gateway delivers webhooks")
            self._set(is_ours=True)

    def _lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            log.info("this gateway delivers no webhooks any more")
            self._set(is_ours=False)

    def _set(self, *, is_ours: bool) -> None:
        if self.is_ours != is_ours:
            self.is_ours = is_ours
            self._ring()
