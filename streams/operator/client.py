"""A client for this project's roles and loads, by their own producer; other programs use `pochade`."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Protocol

from schemas.messages import GenerateRequest, Outcome, Result, Status
from schemas.record import Delivered, Incoming, Outgoing
from schemas.topics import OUTCOMES, PROMPTS, PROMPTS_BATCH, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode_result, encode
from streams.codec.headers import stamp
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.writing import RecordProducer
from streams.settings import Settings


class Following(Protocol):
    """The part of `TopicTailer` that the client uses, so that tests can deliver records themselves."""

    is_caught_up: threading.Event

    def close(self) -> None:
        """Stop delivering records."""

    def wait_caught_up(self, timeout_s: float) -> None:
        """Block until all records of the past are delivered. Raises PochadeError after `timeout_s` seconds."""


class RequestClient:
    """Writes requests and cancellations, and follows results."""

    def __init__(self, settings: Settings, producer: RecordProducer, *, clock_ms: Callable[[], int] = now_ms) -> None:
        self._settings = settings
        self._producer = producer
        self._clock_ms = clock_ms

    def submit(self, request: GenerateRequest, facts: Mapping[str, object] | None = None) -> Future[Delivered]:
        """Write a request; the future resolves when the broker has it, and from then on it ends exactly once.

        `facts`: what its headers say besides.
        """
        headers = stamp(
            {},
            kind="GenerateRequest",
            source="client",
            subject=request.request_id,
            time_ms=self._clock_ms(),
            facts=facts,
        )
        key = request.request_id.encode()
        topic = PROMPTS_BATCH if request.tier == "batch" else PROMPTS
        return self._producer.send(Outgoing(topic=topic, key=key, value=encode(request), headers=headers))

    def cancel(self, request_id: str, reason: str) -> Future[Delivered]:
        """Write a CANCELLED outcome; the request ends with it unless it has ended or another outcome came first."""
        now = self._clock_ms()
        outcome = Outcome(
            request_id=request_id, status=Status.CANCELLED, reason=reason, by="cancel", ended_ms=now, code="cancelled"
        )
        facts = {"status": outcome.status}
        headers = stamp({}, kind="Outcome", source="cancel", subject=request_id, time_ms=now, facts=facts)
        return self._producer.send(
            Outgoing(topic=OUTCOMES, key=request_id.encode(), value=encode(outcome), headers=headers)
        )

    def follow(self, on_result: Callable[[Result], None], since_ms: int = 0) -> Following:
        """Deliver results in a thread until closed: those since `since_ms` (0: all that are kept) and new ones."""

        def on_record(record: Incoming) -> None:
            on_result(decode_result(record.value))

        return TopicTailer(self._settings, [RESULTS], on_record, since_ms=since_ms).start()
