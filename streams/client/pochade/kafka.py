"""The transport over Kafka: requests on `prompts`, ends on `results`, what happens on `events`.

A request is written as JSON, which every release reads. Avro schemas come from the deployment's topic `schemas`, so
that a cancellation is written as the deployment itself writes one. Uploads, images and explanations go by the gateway.
"""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import json
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pochade.cluster import Cluster, Record, extra
from pochade.network import Network, future, run
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
    from concurrent.futures import Future

    from pochade.gateway import Gateway

PROMPTS, BATCH, OUTCOMES = "prompts.v1", "prompts.batch.v1", "outcomes.v1"
RESULTS, EVENTS, SCHEMAS = "results.v1", "events.v1", "schemas.v1"
OUTCOME = "pochade.Outcome"  # subject of the schema of a cancellation
NAMESPACE = "3b0a7f44-90ce-4b3e-8f5c-6a1c2d7e9b10"  # of ids
SKEW_S = 60.0  # that a broker's clock may be behind ours
ACK_S = 60.0  # for the brokers to take a record, repetitions included
READ_S = 60.0  # without a record or the end, until a list of the past is given up
SCHEMAS_S = 30.0  # to read the topic of schemas
MAX_OWN = 100_000  # requests submitted here whose ends are kept


class Kafka:
    """A deployment's topics. One consumer follows ends and events for all requests, from the first that is awaited."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        prefix: str = "pochade",
        gateway: Gateway | None = None,
        history_s: float = 86_400.0,
        cluster: Cluster | None = None,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """`config`: librdkafka's, of producer and consumer. `prefix`: of the deployment's topics.

        `gateway`: for what Kafka lacks. `history_s`: how far back a request of another process is looked for.
        """
        self._cluster = cluster or Cluster(config, prefix)
        self._gateway, self._history_s, self._clock_s = gateway, history_s, clock_s
        self._schemas: dict[int, tuple[str, Any]] = {}  # id -> subject and Avro schema
        self._since_s, self._lock = clock_s() - SKEW_S, threading.RLock()
        self._own: dict[str, Future[End | None]] = {}  # of requests submitted here, which ended after _since_s
        self._rejected: deque[str] = deque(maxlen=1000)  # requests that were rejected for now
        self._following: Callable[[], None] | None = None  # closes it
        self._network: Network

    def over(self, network: Network) -> Kafka:
        """Return this transport over a network."""
        bound = copy.copy(self)
        bound._network, bound._gateway = network, self._gateway and self._gateway.over(network)
        return bound

    async def submit(self, request: Request) -> str:
        """Write the request, under the id that it states, or one that follows from its key and fields."""
        if request.files:
            return await self._by_gateway("uploads").submit(request)
        ids = (_id_of(request, tries) for tries in itertools.count())
        request_id = request.fields.get("request_id") or next(each for each in ids if each not in self._rejected)
        now_ms = round(1000 * self._clock_s())
        fields = {"created_ms": now_ms, **request.fields, "request_id": request_id}
        if request.deadline_s is not None:
            fields["deadline_ms"] = now_ms + round(1000 * request.deadline_s)
        past_s, follower = self._clock_s() - self._history_s, None
        with self._lock:
            self._own.setdefault(request_id, future())
            if len(self._own) > MAX_OWN:
                del self._own[next(iter(self._own))]
            if request.is_key_stated and past_s < self._since_s:  # it may have ended, for another process
                self._since_s, follower = past_s, self._following
        if follower is not None:  # others wait by it
            follower()  # before another begins: an end is set by one thread
            with self._lock:
                if self._following is follower:
                    self._following = self._cluster.follow([RESULTS], past_s, self._on_result)
        topic = BATCH if fields.get("tier") == "batch" else PROMPTS
        await self._written(topic, request_id, json.dumps(fields).encode())
        return request_id

    async def end(self, request_id: str, timeout_s: float) -> End:
        """Wait for the record of the result. An unknown id looks like one that is still open."""
        end: End | None = None
        if own := self._own.get(request_id):
            with self._lock:
                if self._following is None:
                    self._following = self._cluster.follow([RESULTS], self._since_s, self._on_result)
            end = await self._network.wait(own, timeout_s)
        else:
            async with contextlib.aclosing(self._read([RESULTS], request_id, timeout_s=timeout_s)) as events:
                async for event in events:
                    end = event.end
                    break
        if end is None:
            raise StillOpen(request_id, timeout_s)
        return end

    async def events(self, request_id: str, after: str) -> AsyncGenerator[Event, None]:
        """Yield the records of `events`, in the order of their log, up to the result."""
        async with contextlib.aclosing(self._read([EVENTS, RESULTS], request_id)) as events:
            async for event in events:
                if event.end is not None:
                    yield Event(event.kind, {}, after or "-1", event.end)
                    return
                if int(event.position) > int(after or -1):
                    after = event.position
                    yield event

    async def cancel(self, request_id: str, reason: str) -> None:
        """Write the outcome CANCELLED. An id that is unknown so far is cancelled in advance."""

        def known() -> list[int]:
            return [schema_id for schema_id, (subject, _) in self._schemas.items() if subject == OUTCOME]

        if not known():
            await self._learn(self._network)
        if not known():
            raise PochadeError(
                f"{OUTCOME} is not on the topic {SCHEMAS}: the deployment has not announced how to cancel"
            )
        newest = max(known())
        outcome = {"request_id": request_id, "status": "CANCELLED", "reason": reason, "by": "cancel",
                   "ended_ms": round(1000 * self._clock_s()), "code": "cancelled"}  # fmt: skip
        value = io.BytesIO(b"\0" + newest.to_bytes(4, "big"))
        value.seek(5)
        extra("fastavro").schemaless_writer(value, self._schemas[newest][1], outcome)
        await self._written(OUTCOMES, request_id, value.getvalue())

    async def explain(self, request_id: str) -> Explanation:
        """Ask the gateway. The path alone is in `result().details`."""
        return await self._by_gateway("explanations", request_id).explain(request_id)

    async def read(self, image: Image) -> bytes:
        """Ask the gateway for the image."""
        return await self._by_gateway("images", image.request_id).read(Image(image.request_id, image.index, ""))

    async def ends(self, since_s: float, is_following: bool, request_id: str) -> AsyncGenerator[End, None]:
        """Yield each result, or those of an id, of the last `since_s` seconds, and those to come if following."""
        ends = self._read([RESULTS], request_id, self._clock_s() - since_s, is_following=is_following)
        async with contextlib.aclosing(ends) as events:
            async for event in events:
                if event.end is not None:
                    yield event.end

    def close(self) -> None:
        """Write what is queued, and end the connections."""
        if self._following is not None:
            self._following()
            self._following = None
        self._cluster.close()

    def _by_gateway(self, what: str, request_id: str | None = None) -> Gateway:
        if self._gateway is None:
            raise Unsupported(
                f"{what} do not go over Kafka: give Kafka(..., gateway=Gateway(URL)), or use a gateway alone"
            )
        if request_id is not None:
            self._gateway.own.append(request_id)  # which it may not have read of yet
        return self._gateway

    async def _written(self, topic: str, key: str, value: bytes) -> None:
        fault = await self._network.wait(self._cluster.write(topic, key, value), ACK_S)
        if fault != "":
            raise Unavailable(f"the brokers did not take request {key}: {fault or f'not within {ACK_S:g} s'}")

    def _on_result(self, item: Record | PochadeError | None) -> None:
        """Keep the end of a request of ours, in the thread that follows; an error is that of all that wait."""
        if isinstance(item, PochadeError):
            with self._lock:
                self._following = None
                broken = [self._own.pop(key) for key, own in list(self._own.items()) if not own.done()]
            for own in broken:
                own.set_exception(item)
        elif item and (found := self._own.get(item.key)) and not found.done():
            try:
                found.set_result(self._event(item).end)
            except PochadeError as error:
                found.set_exception(error)

    async def _read(
        self, topics: list[str], key: str = "", since_s: float | None = None, timeout_s: float | None = None,
        *, is_following: bool = True,
    ) -> AsyncGenerator[Event, None]:  # fmt: skip
        """Yield the events of a request ("": of all) since a moment, by default its own, for so long at most."""
        inbox, end_s = _Inbox(), None if timeout_s is None else time.monotonic() + timeout_s
        if since_s is None:
            since_s = self._since_s if key in self._own else self._clock_s() - self._history_s

        def on_item(item: Record | PochadeError | None) -> None:
            if isinstance(item, Record):
                if key in ("", item.key):
                    try:
                        inbox.put(self._event(item))
                    except PochadeError as error:  # of all, one that cannot be read must not hide those behind it
                        if key:
                            inbox.put(error)
                        else:
                            import logging

                            logging.getLogger("pochade").warning("%s@%d: %s", item.key, item.offset, error)
            elif item or not is_following:
                inbox.put(item)

        close = self._cluster.follow(topics, since_s, on_item)
        try:
            while True:
                left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
                item = await inbox.next(self._network, left_s if is_following else READ_S)
                if isinstance(item, Exception):
                    raise item
                if item is None:
                    return
                yield item
        except TimeoutError:
            if not is_following:
                raise Unavailable(f"{', '.join(topics)} cannot be read: nothing came for {READ_S:g} s") from None
        finally:
            close()

    def _event(self, record: Record) -> Event:
        try:
            return self._stated(record)
        except PochadeError:
            raise
        except Exception as error:  # whatever decoders raise for what a foreign writer wrote
            raise PochadeError(f"the record of {record.key} on {record.topic} cannot be read: {error!r}") from error

    def _stated(self, record: Record) -> Event:
        fields = self._decoded(record.value)
        if record.topic == EVENTS:
            return Event(fields["kind"], json.loads(fields["detail"]), str(record.offset))
        if isinstance(path := fields.get("path"), str):
            fields["path"] = json.loads(path)
        fields.setdefault("generate_ms", fields.get("paint_ms"))
        images = fields.get("image_uris") or [uri for uri in (fields.get("image_uri"),) if uri]
        end = end_in(fields["status"], fields, record.key, images)
        if isinstance(end, Rejected) and end.retry_after_s is not None:
            self._rejected.append(record.key)
        return Event("ended", {}, "", end)

    def _decoded(self, value: bytes) -> dict[str, Any]:
        """Return the fields of a record: JSON, or Avro behind a zero byte and the id of its schema.

        It may wait for the topic of schemas, and so runs in threads of `Cluster`.
        """
        if value[:1] != b"\0":
            return json.loads(value)  # type: ignore[no-any-return]
        schema_id = int.from_bytes(value[1:5], "big")
        if schema_id not in self._schemas:
            run(self._learn(Network()))
        if schema_id not in self._schemas:
            raise PochadeError(f"the deployment has not announced the schema {schema_id} on its topic {SCHEMAS}")
        fields: dict[str, Any] = extra("fastavro").schemaless_reader(
            io.BytesIO(value[5:]), self._schemas[schema_id][1], None
        )
        return fields

    async def _learn(self, network: Network) -> None:
        """Read the topic of schemas to its end."""
        learnt: Future[bool] = future()

        def on_item(item: Record | PochadeError | None) -> None:
            if item is None:
                learnt.set_result(True)
            elif isinstance(item, PochadeError):
                learnt.set_exception(item)
            else:
                with contextlib.suppress(ValueError, KeyError, TypeError):  # no schema
                    entry = json.loads(item.value)
                    self._schemas.setdefault(int(entry["id"]), (entry["subject"], entry["schema"]))

        close = self._cluster.follow([SCHEMAS], 0.0, on_item)
        try:
            if await network.wait(learnt, SCHEMAS_S) is None:
                raise Unavailable(f"the topic {SCHEMAS} could not be read within {SCHEMAS_S:g} s")
        finally:
            close()


class _Inbox:
    """Events in their order, for one reader; one thread puts them in."""

    def __init__(self) -> None:
        self._items: deque[Event | Exception | None] = deque()
        self._filled: Future[bool] = future()

    def put(self, item: Event | Exception | None) -> None:
        """Put in an event, the error that ends the reading, or None for its end."""
        self._items.append(item)
        if not self._filled.done():
            self._filled.set_result(True)

    async def next(self, network: Network, timeout_s: float | None) -> Event | Exception | None:
        """Return the next item. Raises TimeoutError: there is none in time."""
        if not self._items:
            self._filled = future()
        if not self._items and await network.wait(self._filled, timeout_s) is None:
            raise TimeoutError
        return self._items.popleft()


def _id_of(request: Request, tries: int) -> str:
    import uuid

    content = {**request.fields, "key": request.key, "tries": tries}
    return str(uuid.uuid5(uuid.UUID(NAMESPACE), json.dumps(content, sort_keys=True)))
