"""Writing records as roles see it: the port, what can fail, and how large a record is. No client is loaded."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from schemas.errors import PochadeError
from schemas.record import Delivered, Outgoing

MAX_BYTES = 990_000  # key, value and headers of one record; librdkafka refuses 1,000,000 with its own framing
HEADER_BYTES = 6  # of a header's two lengths, of names below 64 bytes and values below a megabyte


class DeliveryFailed(PochadeError):
    """The broker did not take a record within the delivery timeout; it may be sent again."""


class RecordTooLarge(DeliveryFailed):
    """The topic takes no record of this size; sending it again would not help."""


def size_of(record: Outgoing) -> int:
    """Bytes of key, value and headers as a log keeps them, but for the frame that every record has."""
    headers = sum(HEADER_BYTES + len(name.encode()) + len(value) for name, value in record.headers.items())
    return len(record.key or b"") + len(record.value or b"") + headers


class RecordProducer(Protocol):
    """Port that writes records. A future resolves when the broker has the record; only then commit its cause."""

    def send(self, record: Outgoing) -> Future[Delivered]:
        """Queue one record; thread-safe. The future raises DeliveryFailed."""

    def close(self) -> None:
        """Wait for what is queued and release the client."""


def send_all(producer: RecordProducer, records: Sequence[Outgoing], timeout_s: float = 120) -> list[Delivered]:
    """Write records and wait until the broker has them all.

    Raises DeliveryFailed: it did not take one, or did not answer within `timeout_s`.
    """
    futures = [(record, producer.send(record)) for record in records]
    return [delivered(record, future, timeout_s) for record, future in futures]


def delivered(record: Outgoing, future: Future[Delivered], timeout_s: float) -> Delivered:
    """Wait until the broker has a record that was sent. Raises DeliveryFailed as `send_all`."""
    try:
        return future.result(timeout_s)
    except TimeoutError:
        raise DeliveryFailed(f"{record.topic} did not take a record within {timeout_s:g} s") from None
