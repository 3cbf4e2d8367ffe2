"""The client of a deployment: asks for images on `prompts` and reads what became of them on `results`."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Protocol

from schemas.errors import PochadeError
from schemas.messages import GenerateRequest, Outcome, Result, Status
from schemas.record import Delivered, Incoming, Outgoing
from schemas.topics import OUTCOMES, PROMPTS, PROMPTS_BATCH, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode_result, encode
from streams.codec.headers import stamp
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.writing import RecordProducer
from streams.settings import Settings

SKEW_MS = 60_000  # how far a broker's clock may be behind ours before `wait` would miss a result
MAX_RESULTS = 100_000  # results a listening client remembers for `wait`
READ_TIMEOUT_S = 60.0  # for reading `results` to its end


class Following(Protocol):
    """The part of `TopicTailer` that the client uses, so that tests can deliver records themselves."""

    is_caught_up: threading.Event

    def close(self) -> None:
        """Stop delivering records."""
        ...

    def wait_caught_up(self, timeout_s: float) -> None:
        """Block until all records of the past are delivered. Raises PochadeError after `timeout_s` seconds."""
        ...


OnRecord = Callable[[Incoming], None]
OpenTailer = Callable[[Settings, OnRecord, int], Following]


def follow_results(settings: Settings, on_record: OnRecord, since_ms: int) -> Following:
    """Read `results` from `since_ms` on (0: from the beginning), committed transactions only."""
    return TopicTailer(settings, [RESULTS], on_record, since_ms=since_ms).start()


class StillOpen(PochadeError):
    """A request had no result within the time that was waited for it."""


class RequestClient:
    """Submits requests and reads results; a context manager, since listening holds a thread.

    `listen()` before `submit()` lets `wait` answer at once; without it `wait` listens first and misses nothing, as it
    begins to read shortly before the client was made.
    """

    def __init__(
        self,
        settings: Settings,
        producer: RecordProducer,
        *,
        open_follower: OpenTailer = follow_results,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._settings = settings
        self._producer = producer
        self._open = open_follower
        self._clock_ms = clock_ms
        self._since_ms = clock_ms() - SKEW_MS
        self._arrived = threading.Condition()
        self._results: dict[str, Result] = {}
        self._listening: Following | None = None

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

    def listen(self, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Begin to keep results for `wait`. Raises PochadeError when the broker does not answer in time."""
        if self._listening is None:
            self._listening = self._open(self._settings, self._keep, self._since_ms)
        self._listening.wait_caught_up(timeout_s)

    def _keep(self, record: Incoming) -> None:
        result = decode_result(record.value)
        with self._arrived:
            self._results.setdefault(result.request_id, result)
            if len(self._results) > MAX_RESULTS:
                del self._results[next(iter(self._results))]
            self._arrived.notify_all()

    def wait(self, request_id: str, timeout_s: float) -> Result:
        """Block until a request of this client has ended.

        Raises:
            StillOpen: it had not within `timeout_s`.
        """
        end_s = time.monotonic() + timeout_s
        self.listen()
        with self._arrived:
            if not self._arrived.wait_for(lambda: request_id in self._results, max(0.0, end_s - time.monotonic())):
                raise StillOpen(
                    f"request {request_id} has no result after {timeout_s:g} s: it may still be in work; "
                    f"look later with `pochade explain {request_id}`, and at the roles with `pochade doctor`"
                )
            return self._results[request_id]

    def find(self, request_id: str, since_ms: int = 0) -> Result | None:
        """Return the result of a request among those written since `since_ms`, or None if there is none yet."""
        found: list[bytes] = []
        key = request_id.encode()

        def on_record(record: Incoming) -> None:
            if record.key == key and record.value is not None:
                found.append(record.value)

        reading = self._open(self._settings, on_record, since_ms)
        try:
            reading.wait_caught_up(READ_TIMEOUT_S)
        finally:
            reading.close()
        return decode_result(found[0]) if found else None

    def follow(self, on_result: Callable[[Result], None], since_ms: int = 0) -> Following:
        """Deliver results in a thread until closed: those since `since_ms` (0: all that are kept) and new ones."""
        return self._open(self._settings, lambda record: on_result(decode_result(record.value)), since_ms)

    def close(self) -> None:
        """Stop listening. The producer stays open: it belongs to the caller."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def __enter__(self) -> "RequestClient":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
