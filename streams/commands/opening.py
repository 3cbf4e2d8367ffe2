"""Opens the clients that a command needs, and closes them after it."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from schemas.topics import full_name

if TYPE_CHECKING:  # the clients take half a second to load, which --help need not wait for
    import pochade

    from schemas.messages import Result
    from schemas.record import Delivered, Outgoing
    from streams.kafka.producers.writing import RecordProducer
    from streams.settings import Settings


class LateProducer:
    """A producer that connects at its first record, so that a command that only reads needs no right to write."""

    def __init__(self, settings: "Settings") -> None:
        """Prepare; nothing is contacted."""
        self._settings = settings
        self._opened: RecordProducer | None = None
        self._opening = threading.Lock()

    def send(self, record: "Outgoing") -> "Future[Delivered]":
        """Send a record, as `RecordProducer.send` does; the first call connects."""
        with self._opening:
            if self._opened is None:
                from streams.kafka.producers.producer import KafkaRecordProducer

                self._opened = KafkaRecordProducer(self._settings)
        return self._opened.send(record)

    def close(self) -> None:
        """Write queued records and close the producer, as `RecordProducer.close` does, if one was opened."""
        if self._opened is not None:
            self._opened.close()


@contextlib.contextmanager
def producer(settings: "Settings") -> "Iterator[RecordProducer]":
    """Open the producer of a command; queued records are written before it closes.

    Raises:
        Unreachable: the configured cluster does not answer, or refuses this user.
    """
    from streams.broker import probe

    probe.reach(settings)
    opened = LateProducer(settings)
    try:
        yield opened
    finally:
        opened.close()


@contextlib.contextmanager
def client(settings: "Settings") -> "Iterator[pochade.Client]":
    """Open the client that programs use, over Kafka. Raises Unreachable, as `producer`, and what it raises as ours."""
    import pochade

    from schemas.errors import PochadeError
    from streams.broker import probe
    from streams.kafka.clients import client_config

    probe.reach(settings)
    try:
        with pochade.Client(pochade.Kafka(client_config(settings), prefix=settings.kafka.prefix)) as made:
            yield made
    except pochade.StillOpen as error:
        where = f"look later with `pochade explain {error.request_id}`, and at the roles with `pochade doctor`"
        raise PochadeError(f"{error}; {where}") from None
    except pochade.PochadeError as error:
        raise PochadeError(str(error)) from None


def variants(settings: "Settings") -> set[str]:
    """Return the variants that the cluster has topics for. Raises Unreachable, as `producer`."""
    from streams.broker import probe
    from streams.kafka.clients import ANSWER_LIMIT_S, client_config
    from streams.operator.cluster import variants_of

    begin = full_name(settings.kafka.prefix, "")
    found = probe.probe(client_config(settings), ANSWER_LIMIT_S).topics
    return set(variants_of(name.removeprefix(begin) for name in found if name.startswith(begin)))


def results_of(client: "pochade.Client", since_ms: int, *, is_following: bool = False) -> "Iterator[Result]":
    """Yield the results of the last `since_ms`, and those to come if following."""
    return (result_of(end) for end in client.ends(since_ms / 1000, is_following=is_following))


def find(client: "pochade.Client", request_id: str, since_ms: int) -> "Result | None":
    """Return the result of a request among those of the last `since_ms`; None if it has none yet."""
    return next((result_of(end) for end in client.ends(since_ms / 1000, request_id=request_id)), None)


def result_of(end: "pochade.End") -> "Result":
    """Return the whole result of a request that ended."""
    from schemas.messages import Result
    from streams.codec.avro import as_written, from_values

    result: Result = from_values(Result, as_written(end.details))
    return result
