"""The transport over Kafka: requests on `prompts`, ends on `results`, what happens on `events`.

A request is written as JSON, which every release reads. Avro schemas come from the deployment's topic `schemas`, so
that a cancellation is written as the deployment itself writes one. Uploads, images and explanations go by the gateway.
"""

from __future__ import annotations

import contextlib
import io
import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pochade.cluster import Cluster, Record
from pochade.exchange import Await, Events, Exchange
from pochade.requests import Request
from pochade.values import (
    End,
    Event,
    Explanation,
    Image,
    PochadeError,
    Rejected,
    StillOpen,
    Unavailable,
    Unsupported,
    end_in,
)  # fmt: skip

if TYPE_CHECKING:
    import logging
    from concurrent.futures import Future

    from pochade.gateway import Gateway

PROMPTS, BATCH, OUTCOMES = "prompts.v1", "prompts.batch.v1", "outcomes.v1"
RESULTS, EVENTS, SCHEMAS = "results.v1", "events.v1", "schemas.v1"
OUTCOME = "pochade.Outcome"  # subject of the schema of a cancellation
NAMESPACE = "3b0a7f44-90ce-4b3e-8f5c-6a1c2d7e9b10"  # of ids
SKEW_S = 60.0  # that a broker's clock may be behind ours
ACK_S = 60.0  # for the brokers to take a record, repetitions included
SCHEMAS_S = 30.0  # to read the topic of schemas
MAX_OWN = 100_000  # requests submitted here whose ends are kept
TICK_S = 0.2


class Kafka:
    """A deployment's topics. One consumer follows ends and events for all requests, from the first that is awaited."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        prefix: str = "pochade",
        gateway: Gateway | None = None,
        history_s: float = 86_400.0,
        schemas: Mapping[int, tuple[str, Any]] | None = None,
        cluster: Cluster | None = None,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """`config`: librdkafka's, of producer and consumer. `prefix`: of the deployment's topics.

        `gateway`: for what Kafka lacks. `history_s`: how far back a request of another process is looked for.
        `schemas`: id -> subject and Avro schema that are known already.
        """
        self._cluster = cluster or Cluster(config, prefix)
        self._gateway, self._history_s, self._clock_s = gateway, history_s, clock_s
        self._schemas: dict[int, tuple[str, Any]] = dict(schemas or {})
        self._made_s, self._lock = clock_s(), threading.Lock()
        self._opening = threading.RLock()
        self._own: OrderedDict[str, Record | None] = OrderedDict()  # request submitted here -> its result
        self._rejected: deque[str] = deque(maxlen=1000)  # requests that were rejected for now
        self._inboxes: dict[str, list[_Inbox]] = {}
        self._following: Callable[[], None] | None = None  # closes it
        self._learning: Future[bool] | None = None  # the topic of schemas is being read

    def submit(self, request: Request) -> Exchange[str]:
        """Write the request, under an id that follows from its key and fields."""
        if request.files:
            return (yield from self._by_gateway("uploads").submit(request))
        tries = 0
        while (request_id := _id_of(request, tries)) in self._rejected:
            tries += 1
        now_ms = round(1000 * self._clock_s())
        fields = {**request.fields, "request_id": request_id, "created_ms": now_ms}
        if request.deadline_s is not None:
            fields["deadline_ms"] = now_ms + round(1000 * request.deadline_s)
        with self._lock:
            self._own.setdefault(request_id, None)
            if len(self._own) > MAX_OWN:
                self._own.popitem(last=False)
        topic = BATCH if fields.get("tier") == "batch" else PROMPTS
        yield from self._written(topic, request_id, json.dumps(fields).encode())
        return request_id

    def end(self, request_id: str, timeout_s: float) -> Exchange[End]:
        """Wait for the record of the result. An unknown id cannot be told from one that is still open."""
        with self._inbox(request_id) as inbox:
            until_s = time.monotonic() + timeout_s
            while True:
                record = yield from inbox.next(max(0.0, until_s - time.monotonic()))
                if record is None:
                    raise StillOpen(request_id, timeout_s)
                if record.topic == RESULTS:
                    return (yield from self._end(record))

    def events(self, request_id: str, after: str) -> Events:
        """Yield the records of `events`, in the order of their log, up to the result."""
        position = int(after or -1)
        with self._inbox(request_id, is_with_past=True) as inbox:
            while True:
                record = yield from inbox.next(3600.0)
                if record is None:
                    continue
                if record.topic == RESULTS:
                    yield Event("ended", {}, str(position), (yield from self._end(record)))
                    return
                if record.offset > position:
                    position, fields = record.offset, (yield from self._decoded(record.value))
                    yield Event(fields["kind"], json.loads(fields["detail"]), str(position))

    def cancel(self, request_id: str, reason: str) -> Exchange[None]:
        """Write the outcome CANCELLED. An id that is unknown so far is cancelled in advance."""
        if (newest := self._newest(OUTCOME)) is None:
            yield from self._learn()
            newest = self._newest(OUTCOME)
        if newest is None:
            raise PochadeError(
                f"the deployment has not announced how to cancel: {OUTCOME} is not on its topic {SCHEMAS}"
            )
        now_ms = round(1000 * self._clock_s())
        outcome = {"request_id": request_id, "status": "CANCELLED", "reason": reason, "by": "cancel",
                   "ended_ms": now_ms, "code": "cancelled"}  # fmt: skip
        yield from self._written(OUTCOMES, request_id, _encoded(newest, self._schemas[newest][1], outcome))

    def explain(self, request_id: str) -> Exchange[Explanation]:
        """Ask the gateway. The path alone is in `result().details`."""
        return self._by_gateway("explanations").explain(request_id)

    def read(self, image: Image) -> Exchange[bytes]:
        """Ask the gateway for the image."""
        return self._by_gateway("images").read(Image(image.request_id, image.index, ""))

    def ends(self, since_s: float, is_following: bool) -> Events:
        """Yield an event for each result of the last `since_s` seconds, and of those to come if following."""
        inbox = _Inbox()
        close = self._cluster.follow([RESULTS], self._clock_s() - since_s, inbox.put, inbox.set_caught_up)
        try:
            while True:
                is_caught_up = inbox.is_caught_up  # before looking: what came until then is in the inbox
                record = yield from inbox.next(0.0 if is_caught_up and not is_following else TICK_S)
                if record is not None:
                    try:
                        end = yield from self._end(record)
                    except Exception as error:  # one record that cannot be read must not hide those behind it
                        _log().warning("results@%d of %s is no result: %r", record.offset, record.key, error)
                    else:
                        yield Event("ended", {}, "", end)
                elif is_caught_up and not is_following:
                    return
        finally:
            close()

    def close(self) -> None:
        """Write what is queued, and end the connections."""
        if self._following is not None:
            self._following()
            self._following = None
        self._cluster.close()
        if self._gateway is not None:
            self._gateway.close()

    def _by_gateway(self, what: str) -> Gateway:
        if self._gateway is None:
            raise Unsupported(
                f"{what} do not go over Kafka: give Kafka(..., gateway=Gateway(URL)), or use a gateway alone"
            )
        return self._gateway

    def _newest(self, subject: str) -> int | None:
        return max((known for known, (named, _) in self._schemas.items() if named == subject), default=None)

    def _written(self, topic: str, key: str, value: bytes) -> Exchange[None]:
        fault = yield Await(self._cluster.write(topic, key, value), ACK_S)
        if fault is None:
            raise Unavailable(f"the brokers have not taken request {key} within {ACK_S:g} s, and may yet")
        if fault:
            raise Unavailable(f"the brokers did not take request {key}: {fault}")

    @contextlib.contextmanager
    def _inbox(self, request_id: str, *, is_with_past: bool = False) -> Iterator[_Inbox]:
        """Open an inbox of a request's records: those to come, and those of the past unless its result is known."""
        inbox, close = _Inbox(), None
        with self._lock:
            is_own, result = request_id in self._own, self._own.get(request_id)
            self._inboxes.setdefault(request_id, []).append(inbox)
        with self._opening:
            if self._following is None:
                since_s = self._made_s - SKEW_S
                self._following = self._cluster.follow([RESULTS, EVENTS], since_s, self._on_record)
        if is_with_past or not is_own:
            since_s = self._made_s - SKEW_S if is_own else self._clock_s() - self._history_s

            def on_past(record: Record | PochadeError) -> None:
                if isinstance(record, PochadeError) or record.key == request_id:
                    inbox.put(record)

            close = self._cluster.follow([EVENTS, RESULTS], since_s, on_past)
        elif result is not None:
            inbox.put(result)
        try:
            yield inbox
        finally:
            with self._lock:
                self._inboxes[request_id].remove(inbox)
                if not self._inboxes[request_id]:
                    del self._inboxes[request_id]
            if close is not None:
                close()

    def _on_record(self, record: Record | PochadeError) -> None:
        if isinstance(record, PochadeError):
            with self._opening, self._lock:
                inboxes, self._following = [each for some in self._inboxes.values() for each in some], None
        else:
            with self._lock:
                inboxes = list(self._inboxes.get(record.key, ()))
                if record.topic == RESULTS and record.key in self._own:
                    self._own[record.key] = self._own[record.key] or record
        for inbox in inboxes:
            inbox.put(record)

    def _end(self, record: Record) -> Exchange[End]:
        fields = yield from self._decoded(record.value)
        images = fields.get("image_uris") or [uri for uri in (fields.get("image_uri"),) if uri]
        end = end_in(fields["status"], fields, record.key, images)
        if isinstance(end, Rejected) and end.retry_after_s is not None:
            self._rejected.append(record.key)
        return end

    def _decoded(self, value: bytes) -> Exchange[dict[str, Any]]:
        """Return the fields of a record: JSON, or Avro behind a zero byte and the id of its schema."""
        if value[:1] != b"\0":
            return json.loads(value)  # type: ignore[no-any-return]
        schema_id = int.from_bytes(value[1:5], "big")
        if schema_id not in self._schemas:
            yield from self._learn()
        if schema_id not in self._schemas:
            raise PochadeError(f"the deployment has not announced the schema {schema_id} on its topic {SCHEMAS}")
        fields: dict[str, Any] = _avro().schemaless_reader(io.BytesIO(value[5:]), self._schemas[schema_id][1], None)
        return fields

    def _learn(self) -> Exchange[None]:
        """Read the topic of schemas to its end, once for all that wait for it."""
        from concurrent.futures import Future

        with self._lock:
            learnt, is_first = self._learning or Future(), self._learning is None
            self._learning = learnt
        if is_first:
            learnt.set_running_or_notify_cancel()  # a task that is cancelled leaves it to the others

            def on_record(record: Record | PochadeError) -> None:
                if isinstance(record, PochadeError):
                    self._learning = None
                    learnt.set_exception(record)
                else:
                    self._take_in(record)

            def on_caught_up() -> bool:
                self._learning = None
                learnt.set_result(True)
                return False

            self._cluster.follow([SCHEMAS], 0.0, on_record, on_caught_up)
        if (yield Await(learnt, SCHEMAS_S)) is None:
            raise Unavailable(f"the topic {SCHEMAS} could not be read within {SCHEMAS_S:g} s")

    def _take_in(self, record: Record) -> None:
        try:
            entry = json.loads(record.value)
            self._schemas.setdefault(int(entry["id"]), (entry["subject"], entry["schema"]))
        except (ValueError, KeyError, TypeError) as error:
            _log().warning("%s@%d is no schema: %r", SCHEMAS, record.offset, error)


class _Inbox:
    """Records in their order, for one reader; any thread puts them in."""

    def __init__(self) -> None:
        self.is_caught_up = False
        self._lock = threading.Lock()
        self._records: deque[Record | PochadeError] = deque()
        self._awaited: Future[Record | PochadeError] | None = None

    def set_caught_up(self) -> bool:
        """Note that the past is in; return whether more is wanted."""
        self.is_caught_up = True
        return True

    def put(self, record: Record | PochadeError) -> None:
        """Put in a record, or the error that ends the reading."""
        with self._lock:
            if self._awaited is not None and not self._awaited.done():
                self._awaited.set_result(record)
            else:
                self._records.append(record)

    def next(self, timeout_s: float) -> Exchange[Record | None]:
        """Return the next record; None: there is none in time. Raises the error that was put in."""
        from concurrent.futures import Future

        with self._lock:
            if self._awaited is None:
                self._awaited = Future()
                self._awaited.set_running_or_notify_cancel()  # a reader that is cancelled leaves it to be set
                if self._records:
                    self._awaited.set_result(self._records.popleft())
        record: Record | PochadeError | None = yield Await(self._awaited, timeout_s)
        if record is not None:
            self._awaited = None
        if isinstance(record, PochadeError):
            raise record
        return record


def _id_of(request: Request, tries: int) -> str:
    import uuid

    content = {**request.fields, "key": request.key, "tries": tries}
    return str(uuid.uuid5(uuid.UUID(NAMESPACE), json.dumps(content, sort_keys=True)))


def _log() -> logging.Logger:
    import logging

    return logging.getLogger("pochade")


def _avro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise Unsupported("Avro needs a package: pip install 'pochade-client[kafka]'") from None
    return fastavro


def _encoded(schema_id: int, schema: Any, fields: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    out.write(b"\0" + schema_id.to_bytes(4, "big"))
    _avro().schemaless_writer(out, schema, fields)
    return out.getvalue()
