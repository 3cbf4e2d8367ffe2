"""Followers: they read whole topics without a group, for as long as a process runs."""

import contextlib
import logging
import math
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from schemas.errors import PochadeError, UnknownSchema
from schemas.later import LATER
from schemas.record import Incoming
from schemas.topics import full_name
from streams import metrics
from streams.kafka.consumers.consumer_factory import AT_AN_END_MS, FOLLOWING_MS, open_as, reader_config
from streams.kafka.consumers.polling import incoming, poll_batch
from streams.kafka.consumers.shared_reader import Place, SharedReader, Subscription
from streams.kafka.errors import TRANSIENT, may_pass, partitions_of
from streams.settings import Settings

log = logging.getLogger(__name__)

POLL_S = 2.0  # between two looks at whether the broker refuses: new rights reach it a moment after they were granted
CLOSE_S = 30.0  # for the current record
POLLS_AT_END = 3  # once the past is read, before the shared client reads on: most commands have closed by then
SET_ASIDE_S = 0.1  # between two looks whether a schema is known that records wait for
AGAIN_S = 0.5  # between two questions where a topic begins
SAY_AGAIN_S = 60.0  # between two lines of one error
MAX_SET_ASIDE = 2000  # records of unknown schemas that a follower keeps until it can read them


class TopicTailer:
    """Reads every partition of a topic without a group, from the beginning, the end, or a moment, for ever.

    `on_record` is called in one thread, in offset order per partition; its errors are logged and counted, and do not
    end the following. Of records with an unknown schema the newest of each key is handed over again once the schema is
    known, unless a newer one of that key could be read. `is_caught_up` is set when all records that were there at the
    start have been handed over.

    The past is read by a client of its own, which gets empty answers at once, as these show the end; new records by the
    process's shared client (`SharedReader`), whose answers the broker delays. So neither a long past, nor an unreadable
    topic, nor a slow record delays another follower.
    """

    def __init__(
        self,
        settings: Settings,
        topics: Sequence[str],
        on_record: Callable[[Incoming], None],
        *,
        since_ms: int | None = 0,  # epoch ms; 0: the beginning; None: only what comes from now on
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._on_record = on_record
        self._since_ms = since_ms
        self.is_caught_up = threading.Event()
        self._error: KafkaError | None = None  # the last one met
        self._logged_s = -math.inf  # monotonic seconds of its last line
        self._stopping = threading.Event()
        self._set_aside: OrderedDict[tuple[str, bytes | None], Incoming] = OrderedDict()  # by topic and key
        self._schemas_known = LATER.count
        self._offset: int | None = None  # where to begin, if that is known
        self._inbox = queue.SimpleQueue[Message | None]()  # what the process's client has read on
        self._config = reader_config(settings, "follower")
        self._thread = threading.Thread(target=self._run, name=f"follow-{'-'.join(topics)}", daemon=True)

    def start(self, offset: int | None = None) -> "TopicTailer":
        """Begin in a thread of its own; at an offset, where it is given, of a topic with one partition."""
        self._offset = offset
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop and release the client; one whose thread hangs in `on_record` is left to the end of the process."""
        self._stopping.set()
        self._inbox.put(None)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_S)
            if self._thread.is_alive():
                log.error("a follower of %s did not stop within %g s: it hangs in a record", self._topics, CLOSE_S)

    def wait_caught_up(self, timeout_s: float) -> None:
        """Block until the past is read.

        Raises PochadeError: the broker did not answer in time, or this user may not read.
        """
        names, end_s = ", ".join(self._topics), time.monotonic() + timeout_s
        while not self.is_caught_up.wait(max(0.0, min(POLL_S, end_s - time.monotonic()))):
            self.raise_if_denied()
            if time.monotonic() >= end_s:
                names = f"{names} of {self._settings.kafka.prefix}"
                error = self._error
                why = "is the broker reachable?" if error is None or may_pass(error) else error.str()
                raise PochadeError(f"could not read {names} to its end within {timeout_s:g} s: {why}")

    def raise_if_denied(self) -> None:
        """Raise PochadeError if the broker said last that this user may not read."""
        if self._error is not None and self._error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            rights = "`pochade topics acls` prints the rights of each role and client"
            raise PochadeError(f"this user may not read {', '.join(self._topics)}: {self._error.str()}; {rights}")

    def _run(self) -> None:
        with contextlib.closing(open_as({**self._config, "fetch.wait.max.ms": AT_AN_END_MS})) as consumer:
            positions = self._read_past(consumer)
        reading_on = {**self._config, "fetch.wait.max.ms": FOLLOWING_MS, "enable.partition.eof": False}
        while not self._stopping.is_set():  # once, but for records that come faster than they can be used
            subscription = Subscription(positions, self._inbox)
            reader = SharedReader.join(reading_on, subscription)
            self._read_on()
            reader.leave(subscription)
            positions = subscription.positions

    def _read_past(self, consumer: Consumer) -> dict[Place, int]:
        """Read up to the ends as of now; return where to go on, which is wrong where it is to stop before."""
        behind = self._assign(consumer)
        ends: dict[Place, int] = {}
        left = POLLS_AT_END
        while not self._stopping.is_set() and left:
            for message in poll_batch(consumer, 500, 0.1):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    place = message.topic() or "", message.partition() or 0
                    ends[place] = message.offset() or 0
                    behind.discard(place)
                else:
                    self._use(message)
            self._retry_set_aside()
            if not behind:
                self.is_caught_up.set()
                left -= 1
        # the position of a partition without a record, or before a marker, lies below its end
        places = {(place.topic, place.partition): place.offset for place in consumer.position(consumer.assignment())}
        return {place: max(offset, ends.get(place, 0)) for place, offset in places.items()}

    def _read_on(self) -> None:
        """Hand over what comes, until this is to stop or is cut off."""
        while True:
            try:
                message = self._inbox.get(timeout=SET_ASIDE_S if self._set_aside else None)
            except queue.Empty:
                message = None
            else:
                if message is None or self._stopping.is_set():
                    return
                self._use(message)
            self._retry_set_aside()

    def _use(self, message: Message) -> None:
        error = message.error()
        if error is None:
            self._hand_over(message)
        elif error.code() not in TRANSIENT:
            self._meet(error)
            self._stopping.wait(1)

    def _meet(self, error: KafkaError) -> None:
        """Keep what hinders reading, and log it once a minute while it lasts."""
        is_known = self._error is not None and self._error.code() == error.code()
        if not is_known or time.monotonic() > self._logged_s + SAY_AGAIN_S:
            prefix, self._logged_s = self._settings.kafka.prefix, time.monotonic()
            log.warning("cannot read %s of %s: %s; trying on", ", ".join(self._topics), prefix, error.str())
        self._error = error

    def _hand_over(self, message: Message) -> None:
        try:
            self._take_in(incoming(message, self._settings.kafka.prefix))
        except Exception:  # one record that cannot be used must not hide those behind it
            metrics.UNUSABLE.labels("-".join(self._topics)).inc()
            log.exception("a follower of %s could not use a record", self._topics)

    def _take_in(self, record: Incoming) -> None:
        place = record.topic, record.key
        self._set_aside.pop(place, None)
        try:
            self._on_record(record)
        except UnknownSchema as error:
            metrics.UNUSABLE.labels("-".join(self._topics)).inc()
            if not self._set_aside:  # of more that follow no lines: it may be every heartbeat
                at = f"{record.topic} {record.partition}@{record.offset}"
                log.warning("a follower sets records aside, from %s on: %s", at, error)
            self._set_aside[place] = record
            if len(self._set_aside) > MAX_SET_ASIDE:
                self._set_aside.popitem(last=False)

    def _retry_set_aside(self) -> None:
        """Hand over what was set aside, once more schemas are known."""
        if self._schemas_known == LATER.count:
            return
        self._schemas_known = LATER.count
        for record in list(self._set_aside.values()):
            try:
                self._take_in(record)
            except Exception:
                metrics.UNUSABLE.labels("-".join(self._topics)).inc()
                log.exception("a follower of %s could not use a record", self._topics)

    def _assign(self, consumer: Consumer) -> set[Place]:
        """Begin at the starts; the partitions whose past is still to be read."""
        while not self._stopping.is_set():
            try:
                starts = [start for topic in self._topics for start in self._starts(consumer, topic)]
                consumer.assign(starts)
                return {(tp.topic, tp.partition) for tp in starts}
            except KafkaException as error:
                self._meet(error.args[0])
                self._stopping.wait(AGAIN_S)
        return set()

    def _starts(self, consumer: Consumer, topic: str) -> list[TopicPartition]:
        name = full_name(self._settings.kafka.prefix, topic)
        partitions = partitions_of(consumer, name, 5)
        if self._offset is not None:
            return [TopicPartition(name, p, self._offset) for p in partitions]
        if not self._since_ms:
            start = OFFSET_END if self._since_ms is None else OFFSET_BEGINNING
            return [TopicPartition(name, p, start) for p in partitions]
        asked = [TopicPartition(name, p, self._since_ms) for p in partitions]
        # the ends before the question: OFFSET_END would be looked up later, past what is written in between
        ends = {p: consumer.get_watermark_offsets(TopicPartition(name, p), timeout=10)[1] for p in partitions}
        starts = consumer.offsets_for_times(asked, timeout=10)
        for tp in starts:
            if tp.error is not None:
                raise KafkaException(tp.error)
        return [
            TopicPartition(name, tp.partition, tp.offset if tp.offset >= 0 else ends[tp.partition]) for tp in starts
        ]
