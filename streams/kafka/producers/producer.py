"""The one producer of every role: idempotent, acks=all, murmur2 keys, each send answered by a future.

Faust's own producer is not idempotent and hashes keys differently, so the Faust roles use this too.
"""

import contextlib
import logging
import os
import threading
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from schemas.record import Delivered, Outgoing
from schemas.topics import full_name
from streams.kafka.clients import ClusterSettings, producer_config
from streams.kafka.producers.writing import DeliveryFailed, RecordTooLarge, size_of

log = logging.getLogger(__name__)

TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
BUSY = 8  # records in flight, from which on the senders themselves serve most delivery reports
BUSY_PAUSE_S = 0.004
FLUSH_S = 20.0  # at the end, for records in flight: less than `shutdown_timeout_s`
METADATA_S = 5.0  # to ask for a topic's partitions


class KafkaRecordProducer:
    """A `RecordProducer` on librdkafka, with a thread that serves delivery reports."""

    def __init__(self, cluster: ClusterSettings, *, extra: dict[str, Any] | None = None) -> None:
        self._prefix = cluster.kafka.prefix
        config: dict[str, Any] = {
            **producer_config(cluster),
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": "murmur2_random",
            **(extra or {}),
        }
        self.client = Producer(config)
        self._stopping = threading.Event()
        self._outgrown: set[str] = set()  # topics, by full name, that have more partitions than the client knows
        self._reports = threading.Thread(target=self._serve_reports, name="delivery-reports", daemon=True)
        self._reports.start()

    def send(self, record: Outgoing) -> Future[Delivered]:
        future: Future[Delivered] = Future()
        future.set_running_or_notify_cancel()  # a waiter that gives up must not cancel it under the report's feet
        arguments: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
        while True:
            try:
                self.client.produce(
                    full_name(self._prefix, record.topic),
                    record.value,
                    record.key,
                    headers=list(record.headers.items()),
                    on_delivery=lambda error, message: self._resolve(future, record, error, message),
                    **arguments,
                )
                self.client.poll(0)  # a busy sender serves the reports itself: no second thread for the lock to go to
                return future
            except BufferError:  # the local queue is full: wait for deliveries rather than grow
                self.client.poll(0.05)
            except KafkaException as error:
                future.set_exception(self._failure(record, error.args[0]))
                return future

    def _serve_reports(self) -> None:
        while not self._stopping.is_set():
            if len(self.client) > BUSY:
                self._stopping.wait(BUSY_PAUSE_S)
                self.client.poll(0)
            else:
                self.client.poll(0.1)
            while self._outgrown:
                with contextlib.suppress(KafkaException):  # asked for again at the next failure
                    self.client.list_topics(self._outgrown.pop(), timeout=METADATA_S)

    def _resolve(self, future: Future[Delivered], record: Outgoing, error: KafkaError | None, message: Message) -> None:
        if error is None:
            future.set_result(Delivered(partition=message.partition() or 0, offset=message.offset() or 0))
        else:
            future.set_exception(self._failure(record, error))

    def _failure(self, record: Outgoing, error: KafkaError) -> DeliveryFailed:
        _end_if_fatal(error)
        if error.code() == KafkaError._UNKNOWN_PARTITION:  # new: it would be known by itself minutes later
            self._outgrown.add(full_name(self._prefix, record.topic))
        kind = RecordTooLarge if error.code() in TOO_LARGE else DeliveryFailed
        return kind(f"{record.topic} did not take a record of {size_of(record)} bytes: {error.str()}")

    def close(self) -> None:
        if left := self.client.flush(FLUSH_S):
            log.warning("%d records were not delivered: no broker took them. Work that they report is done again", left)
        self._stopping.set()
        self._reports.join()


def _end_if_fatal(error: KafkaError) -> None:
    """End the process after a fatal error, as an idempotent producer never writes again after one."""
    if error.fatal():
        log.critical("the producer cannot go on: %s; ending the process", error.str())
        os._exit(70)
