"""Opens the clients that a command needs, and closes them after it."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the clients take half a second to load, which --help need not wait for
    from streams.client import RequestClient
    from streams.producer import RecordProducer
    from streams.settings import Settings


@contextlib.contextmanager
def producer(settings: "Settings") -> "Iterator[RecordProducer]":
    """The producer of a command; what is queued is written before it closes."""
    from streams.producer import KafkaRecordProducer

    opened = KafkaRecordProducer(settings)
    try:
        yield opened
    finally:
        opened.close()


@contextlib.contextmanager
def client(settings: "Settings") -> "Iterator[RequestClient]":
    """A client of the deployment, whose roles may be of an older release."""
    from schemas.messages import GenerateRequest, Outcome
    from streams.client import RequestClient
    from streams.schema_topic import tell

    with producer(settings) as opened, RequestClient(settings, opened) as made:
        tell(settings, opened, (GenerateRequest, Outcome))
        yield made
