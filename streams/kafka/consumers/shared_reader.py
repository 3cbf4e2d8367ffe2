"""The one client of a process that reads on for all its followers, each from where it has read its past to."""

import logging
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Message, TopicPartition

from streams.kafka.consumers.consumer_factory import open_as
from streams.kafka.consumers.polling import poll_batch
from streams.kafka.errors import TRANSIENT

log = logging.getLogger(__name__)

POLL_S: Final = 0.1  # the most that joining waits, and the last to leave
ERROR_PAUSE_S: Final = 1.0
CLOSE_S: Final = 30.0  # for the current batch
MAX_WAITING: Final = 5000  # records that wait for one follower

Place = tuple[str, int]  # topic by its full name, partition

_READERS: dict[frozenset[tuple[str, Any]], "SharedReader"] = {}  # by configuration
_LOCK = threading.Lock()


class Subscription:
    """The partitions that one follower reads on, and what came from them: records in order, and errors.

    One whose follower lets MAX_WAITING messages wait is cut off, so that it delays no other: it gets nothing more, and
    its follower subscribes anew from `positions` once it has used what waits.
    """

    def __init__(self, positions: Mapping[Place, int], inbox: "queue.SimpleQueue[Message | None]") -> None:
        """`positions`: the first offset that is wanted. `inbox`: takes the messages; None where it is cut off."""
        self.positions = dict(positions)  # the offset of the next record
        self.topics = {topic for topic, _ in positions}
        self.inbox = inbox
        self.is_cut = False

    def give(self, message: Message) -> None:
        """Let a message wait for the follower."""
        if not self.is_cut:
            self.is_cut = self.inbox.qsize() >= MAX_WAITING
            self.inbox.put(None if self.is_cut else message)

    def give_record(self, place: Place, message: Message, *, is_reset: bool) -> None:
        """Take in a record that this follower has not had; `is_reset`: the log has begun anew, at a lower offset."""
        offset = message.offset() or 0
        if place in self.positions and (is_reset or offset >= self.positions[place]):
            self.give(message)
            if not self.is_cut:
                self.positions[place] = offset + 1


class SharedReader:
    """One client and one thread, while there are subscribers. Several followers may share a topic."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._key = frozenset(config.items())
        self._subscriptions: tuple[Subscription, ...] = ()  # changed under the lock
        self._served: tuple[Subscription, ...] = ()
        self._positions: dict[Place, int] = {}  # the offset of the next record that the client returns
        self._consumer = open_as(config)
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)

    @staticmethod
    def join(config: Mapping[str, Any], subscription: Subscription) -> "SharedReader":
        """Return the reader of this configuration, which serves a subscription from now on; the first opens it."""
        key = frozenset(config.items())
        with _LOCK:
            reader = _READERS.get(key)
            is_first = reader is None
            if reader is None:
                reader = _READERS[key] = SharedReader(config)
            reader._subscriptions = (*reader._subscriptions, subscription)
            if is_first:
                reader._thread.start()
        return reader

    def leave(self, subscription: Subscription) -> None:
        """End a subscription, once; with the last one the client is closed before this returns."""
        with _LOCK:
            self._subscriptions = tuple(each for each in self._subscriptions if each is not subscription)
            is_last = not self._subscriptions
            if is_last:
                del _READERS[self._key]
        if is_last:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while wanted := self._subscriptions:
            try:
                if wanted != self._served:
                    self._serve(wanted)
                for message in poll_batch(self._consumer, 500, POLL_S):
                    self._pass_on(message)
            except KafkaException:
                log.exception("cannot read what this process follows; trying on")
                time.sleep(ERROR_PAUSE_S)
        self._consumer.close()

    def _serve(self, subscriptions: tuple[Subscription, ...]) -> None:
        """Read each partition on from the lowest offset that any of these lacks."""
        begins: dict[Place, int] = {}
        for each in subscriptions:
            for place, offset in each.positions.items() if not each.is_cut else ():
                begins[place] = min(offset, begins.get(place, offset))
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in begins.items()])
        self._positions, self._served = begins, subscriptions

    def _pass_on(self, message: Message) -> None:
        error, place = message.error(), (message.topic() or "", message.partition() or 0)
        if error is None:
            offset = message.offset() or 0
            is_reset = offset < self._positions.get(place, 0)
            self._positions[place] = offset + 1
            for each in self._served:
                each.give_record(place, message, is_reset=is_reset)
        elif error.code() not in TRANSIENT:
            concerned = [each for each in self._served if place[0] in each.topics]
            if not concerned:
                log.error("cannot read what this process follows: %s; trying on", error)
            for each in concerned:
                each.give(message)
