"""The Kafka transport's use of librdkafka: writes records and follows topics."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pochade.network import future
from pochade.values import PochadeError, Refused, Unsupported

if TYPE_CHECKING:
    from concurrent.futures import Future

POLL_S = 0.1
ASK_S = 10.0  # for partitions and offsets
RETRY_S = 0.5  # until a cluster that does not answer is asked again
CLOSE_S = 10.0


class Record(NamedTuple):
    """A record of a topic, whose name is without the deployment's prefix."""

    topic: str
    offset: int
    key: str
    value: bytes


OnItem = Callable[[Record | PochadeError | None], None]


class Cluster:
    """Brokers."""

    def __init__(self, config: Mapping[str, Any], prefix: str) -> None:
        """Contact nothing. `config`: librdkafka's, of producer and consumer."""
        self._config, self._prefix = dict(config), prefix
        self._producer: Any = None
        self._lock, self._closing = threading.Lock(), threading.Event()

    def write(self, topic: str, key: str, value: bytes) -> Future[str]:
        """Write a record. The future says why it was not written, "" where all replicas have it.

        It raises Refused for a record that is too large.
        """
        written, library = future(), extra("confluent_kafka")

        def end(error: Any, _message: object = None) -> None:
            if error and error.code() == library.KafkaError.MSG_SIZE_TOO_LARGE:
                message = f"request {key} is too large for the brokers, with {len(value)} bytes"
                written.set_exception(Refused(413, message, "too-large"))
            else:
                written.set_result(error.str() if error else "")

        while True:
            try:
                self._opened().produce(f"{self._prefix}.{topic}", value, key, on_delivery=end)
            except BufferError:  # too many are on their way: a writer waits rather than lets them grow
                self._producer.poll(POLL_S)
                continue
            except library.KafkaException as error:  # librdkafka refuses some at once
                end(error.args[0])
            return written

    def follow(self, topics: Sequence[str], since_s: float, on_item: OnItem) -> Callable[[], None]:
        """Read committed records since a moment (epoch seconds; 0: all) in a thread, until what is returned is called.

        `on_item` gets them; None when all is read that was there at the start; and the error that ends the reading.
        """
        stopping = threading.Event()
        own = {"group.id": f"{self._prefix}.consumer", "enable.auto.commit": False, "enable.partition.eof": True,
               "isolation.level": "read_committed", "auto.offset.reset": "earliest"}  # fmt: skip
        with _configuring() as library:
            consumer = library.Consumer({**own, **self._config})
        thread = threading.Thread(target=self._read, args=(consumer, topics, since_s, on_item, stopping), daemon=True)
        thread.start()

        def close() -> None:
            stopping.set()
            thread.join(CLOSE_S)

        return close

    def close(self) -> None:
        """Write what is queued and close the producer."""
        if self._producer is not None:
            self._producer.flush(CLOSE_S)
        self._closing.set()

    def _opened(self) -> Any:
        with self._lock:
            if self._producer is None:
                own = {"enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 5}
                with _configuring() as library:
                    self._producer = library.Producer({**own, **self._config})
                threading.Thread(target=self._serve, daemon=True).start()
        return self._producer

    def _serve(self) -> None:
        with contextlib.suppress(extra("confluent_kafka").KafkaException):
            self._producer.list_topics(timeout=ASK_S)  # or the first record of an idempotent producer waits for .5 s
        while not self._closing.is_set():
            self._producer.poll(POLL_S)

    def _read(
        self, consumer: Any, topics: Sequence[str], since_s: float, on_item: OnItem, stopping: threading.Event
    ) -> None:
        library = extra("confluent_kafka")
        eof, denied = library.KafkaError._PARTITION_EOF, library.KafkaError.TOPIC_AUTHORIZATION_FAILED
        with contextlib.closing(consumer):
            behind: set[tuple[str, int]] | None = None
            while not (stopping.is_set() or self._closing.is_set()):
                try:
                    if behind is None:
                        starts = [start for topic in topics for start in self._starts(consumer, topic, since_s)]
                        consumer.assign(starts)
                        behind = {(start.topic, start.partition) for start in starts}
                    for message in consumer.consume(500, POLL_S):
                        code = message.error() and message.error().code()
                        if code is None:
                            topic = message.topic().removeprefix(f"{self._prefix}.")
                            key = (message.key() or b"").decode(errors="replace")
                            on_item(Record(topic, message.offset(), key, message.value() or b""))
                        elif code == eof and behind:
                            behind.discard((message.topic(), message.partition()))
                            if not behind:
                                on_item(None)
                        elif code == denied:
                            raise library.KafkaException(message.error())
                except library.KafkaException as error:
                    if error.args[0].code() == denied:
                        on_item(PochadeError(f"this user may not read {', '.join(topics)}: {error.args[0].str()}"))
                        return
                    stopping.wait(RETRY_S)

    def _starts(self, consumer: Any, topic: str, since_s: float) -> list[Any]:
        library, name = extra("confluent_kafka"), f"{self._prefix}.{topic}"
        found = consumer.list_topics(name, timeout=ASK_S).topics[name]
        if found.error is not None:
            raise library.KafkaException(found.error)
        if not since_s > 0:
            return [library.TopicPartition(name, each, library.OFFSET_BEGINNING) for each in found.partitions]
        ends = {each: consumer.get_watermark_offsets(library.TopicPartition(name, each), timeout=ASK_S)[1]
                for each in found.partitions}  # fmt: skip
        asked = [library.TopicPartition(name, each, max(1, round(1000 * since_s))) for each in found.partitions]
        starts: list[Any] = consumer.offsets_for_times(asked, timeout=ASK_S)
        for start in starts:
            start.offset = ends[start.partition] if start.offset < 0 else start.offset
        return starts


@contextlib.contextmanager
def _configuring() -> Iterator[Any]:
    """Yield librdkafka; a configuration that it does not take is a PochadeError."""
    library = extra("confluent_kafka")
    try:
        yield library
    except library.KafkaException as error:
        raise PochadeError(f"librdkafka does not take this configuration: {error.args[0].str()}") from error


def extra(name: str) -> Any:
    """Return a package of the extra `kafka`. Raises Unsupported, which says how to install it."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise Unsupported("Kafka needs more packages: pip install 'pochade-client[kafka]'") from None
