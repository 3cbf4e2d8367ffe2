"""Reading from Kafka: messages to `Incoming`, and batches without waiting."""

import gc
import operator

from confluent_kafka import Consumer, KafkaException, Message

from schemas.record import Incoming
from streams.kafka.errors import TRANSIENT

NAMELESS = "\N{REPLACEMENT CHARACTER}"  # a header whose name is not UTF-8: the client loses it


def incoming(message: Message, prefix: str) -> Incoming:
    """A client's message as a value, its topic without the prefix."""
    return Incoming(
        topic=(message.topic() or "").removeprefix(prefix + "."),
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=headers_of(message),
    )


def headers_of(message: Message) -> dict[str, bytes]:
    """A message's headers, whatever their names: the only safe way to ask for them.

    The last of those with the same name; empty where there is no value. For a name that is not UTF-8 confluent-kafka
    2.16.1 returns a list with a hole and sets an error, the next time the list alone; who looks into the hole ends the
    process by SIGSEGV. A plain call does not notice the error once the interpreter has specialised it (Python 3.11);
    `operator.call` is sure to.
    """
    try:
        pairs = operator.call(message.headers) or []
    except SystemError:  # "returned a result with an exception set"
        pairs = [_whole(pair) for pair in operator.call(message.headers)]
        message.set_headers(pairs)  # whoever asks again, of whatever code
    return {name: value or b"" for name, value in pairs}


def _whole(pair: tuple[str, bytes | None]) -> tuple[str, bytes | None]:
    """A header, or its value under no name: the place of the name holds no object, and must not be looked at."""
    held = gc.get_referents(pair)
    return pair if len(held) == 2 else (NAMELESS, held[0] if held else None)


def poll_batch(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """Up to `most` messages, errors among them: waits for the first only (`consume(n, t)` waits out t, measured)."""
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *(consumer.consume(most - 1, 0) if most > 1 else [])]


def take(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """Up to `most` records.

    Raises:
        KafkaException: what is not transient, such as a missing right.
    """
    messages = poll_batch(consumer, most, timeout_s)
    for message in messages:
        error = message.error()
        if error is not None and error.code() not in TRANSIENT:
            raise KafkaException(error)
    return [m for m in messages if m.error() is None]
