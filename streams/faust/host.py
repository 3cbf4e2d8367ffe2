"""Runs a role's logic as a faust-streaming agent, under rules by which no record is lost.

One record is served at a time, with up to IN_FLIGHT results on their way to the broker. A record is acked, in input
order, only once everything written because of it is acknowledged. A record of an unknown schema holds up its partition,
and no other. No exception leaves the agent: a record that the logic cannot serve or decode, or whose result no topic
takes, goes to the dlq, and the next record is served. Results go through the shared idempotent producer, never Faust's.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import logging
import os
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol, runtime_checkable

from faust.types import TP, EventT, StreamT

from schemas.errors import PochadeError
from schemas.record import Delivered, Incoming, Outgoing
from schemas.topics import EVENTS, PUBLIC, full_name
from streams import metrics
from streams.codec.schema_wait import RETRY_S, Place, SchemaWait, awaited
from streams.faust.consumer import App
from streams.faust.record_sets import Undecoded
from streams.faust.security import faust_options
from streams.kafka.clients import client_config
from streams.kafka.producers.limit_questions import ask
from streams.kafka.producers.topic_limits import LIMITS, SENDS_ALONE
from streams.kafka.producers.writing import DeliveryFailed, RecordProducer, RecordTooLarge, size_of
from streams.observing import log_context, logs
from streams.security.private_folder import create_private
from streams.security.security import security_of
from streams.settings import Settings
from streams.tracing import spans

log = logging.getLogger(__name__)

IN_FLIGHT = 64  # measured: 3,770 records/s at 64, 627/s when each ack is awaited
RESEND_WAITS_S = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0)  # before each resend: 16 s for what passes by itself
REFUSALS = 16  # maximum number of refusals of a record's results for their size; each halves the dead letter
REPORT_EVERY_S = 0.1  # between two lines about bad input
METADATA_MS = 1000  # a broker that is just back names no topics yet, and the group's leader would assign none of them
LOOP_ANSWER_S = 2  # max time for an event loop to answer; beyond it the role is not alive

Sent = tuple[Outgoing, Future[Delivered]]
Unacked = tuple[EventT[bytes], Incoming, float, spans.Hop | None, list[Sent]]  # float: monotonic s when taken


class StreamLogic(Protocol):
    """A role that reads one topic. `on_record` decides; `on_error` says what to write when it raised."""

    role: str
    source: str  # topic without prefix

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]: ...

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None: ...

    def on_undelivered(self, record: Outgoing) -> None:
        """Give up a record that its topic refuses for its size; `on_error` is called next."""

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]: ...


@runtime_checkable
class LooksAhead(Protocol):
    """A role that may begin work on records before their turn. What it begins has no effect but to be done sooner."""

    ahead: int  # records behind the present one

    def look_ahead(self, records: Sequence[Incoming]) -> None:
        """Begin with records that come next, the present one first; what was begun of others is not wanted any more."""


class AgentHost:
    """One Faust app (its own group) around one `StreamLogic`."""

    def __init__(self, settings: Settings, logic: StreamLogic, producer: RecordProducer) -> None:
        self._settings = settings
        self._logic = logic
        self._producer = producer
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._turn = asyncio.Lock()  # held records and new ones come in two tasks
        self._held: dict[Place, deque[tuple[EventT[bytes], Incoming]]] = {}  # of partitions that wait for a schema
        self._unacked: asyncio.Queue[Unacked] = asyncio.Queue()
        self._logged_s = -REPORT_EVERY_S  # when bad input was last logged
        self._words = logs.LastError("aiokafka", "faust", "mode")
        self._schemas = SchemaWait(logic.role)
        self._group = f"{settings.kafka.prefix}.{logic.role}"
        self._records = metrics.RECORDS.labels(logic.role)  # looking one up takes longer than counting
        self._queue_s, self._hop_s = (each.labels(logic.role) for each in (metrics.QUEUE_SECONDS, metrics.HOP_SECONDS))
        self._loop: asyncio.AbstractEventLoop | None = None  # once the app has started fully
        self.app = _app(settings, logic.role)
        topic = self.app.topic(
            full_name(settings.kafka.prefix, logic.source), key_serializer="raw", value_serializer="raw"
        )
        self.app.agent(topic, name=f"{settings.kafka.prefix}.{logic.role}", concurrency=1)(self._serve)
        self.app.task(self._acknowledge)
        self.app.task(self._serve_delayed)

    async def _serve(self, stream: StreamT[bytes]) -> None:
        logic = self._logic if isinstance(self._logic, LooksAhead) else None
        events = stream.noack()
        async for event in events.events():
            record = _incoming(event, self._settings.kafka.prefix)
            if logic is not None:
                logic.look_ahead([record, *self._next(events, logic.ahead)])
            place = record.topic, record.partition
            if place in self._held:
                awaited(record.topic, record.value)  # its schema is looked for with that of the first
                self._held[place].append((event, record))
                self.app.consumer.hold(TP(event.message.topic, record.partition))  # also if Faust has resumed it
            elif not await self._take(event, record):
                self._held[place] = deque([(event, record)])
                self.app.consumer.hold(TP(event.message.topic, record.partition))

    def _next(self, stream: StreamT[bytes], count: int) -> list[Incoming]:
        """Return the records that Faust has fetched and hands over next; they stay where they are."""
        fetched = itertools.islice(stream.channel.queue._queue, count)  # which has no way to look at it
        return [_incoming(event, self._settings.kafka.prefix) for event in fetched]

    async def _take(self, event: EventT[bytes], record: Incoming) -> bool:
        """Serve a record and have it acknowledged; return False, with nothing done, if it waits for its schema.

        Where the partition moves, or the process ends, the whole group waits for what is not acknowledged: a record
        that waits goes to its topic's end again, where a newer member may read it. On a public topic its position may
        be its request's id, a role may not write there, and the wait is short: there the role keeps it.
        """
        waits = self._schemas.waits(record)
        if waits and (record.topic in PUBLIC or not self._leaves()):
            return False
        await self._slots.acquire()  # first: nothing may come between a decision and its sends
        async with self._turn:
            taken_s = time.monotonic()
            if record.timestamp_ms > 0:
                self._queue_s.observe(max(0.0, time.time() - record.timestamp_ms / 1000))
            hop = spans.begin(self._logic.role, [record], self._group) if spans.recorder is not None else None
            with log_context.serving(record), spans.within(hop):
                records = self._back(record) if waits else await self._decide(record)
            self._records.inc()
            self._unacked.put_nowait((event, record, taken_s, hop, [(r, self._producer.send(r)) for r in records]))
        return True

    def _leaves(self) -> bool:
        return self.is_rebalancing() or bool(self.app.should_stop)

    def _back(self, record: Incoming) -> Sequence[Outgoing]:
        metrics.FALLBACKS.labels(self._logic.role, "sent-back").inc()
        return [Outgoing(topic=record.topic, key=record.key, value=record.value, headers=record.headers)]

    async def _serve_delayed(self) -> None:
        """Serve the partitions that wait for a schema, each from where it stopped, as soon as that is known."""
        while True:
            await asyncio.sleep(RETRY_S)
            for place in list(self._held):
                await self._serve_on(place)

    async def _serve_on(self, place: Place) -> None:
        held = self._held[place]
        while held:
            event, record = held[0]
            if not await self._take(event, record):
                return
            held.popleft()
        del self._held[place]
        self._schemas.ends(*place)
        self.app.consumer.release(TP(event.message.topic, place[1]), is_ours=not self._leaves())

    async def _decide(self, record: Incoming) -> Sequence[Outgoing]:
        try:
            if isinstance(record.value, Undecoded):
                raise record.value.error
            return _writable(await self._logic.on_record(record))
        except Exception as error:
            self._report(record, error)
            return self._refusal(record, error)

    def _report(self, record: Incoming, error: Exception) -> None:
        """Log it; of bad input, which is counted and lies on the dlq, a line now and then and no traceback: a flood of
        it must not cost more than it takes to serve good records."""
        is_bad_input = isinstance(error, logs.CITING)
        now_s = time.monotonic()
        if is_bad_input and now_s - self._logged_s < REPORT_EVERY_S:
            return
        self._logged_s = now_s
        facts = self._logic.role, record.topic, record.partition, record.offset, type(error).__name__, error
        log.error("%s cannot serve %s/%d@%d: %s: %s", *facts, exc_info=None if is_bad_input else error)

    def _refusal(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """Return the logic's answer to its own failure; if that fails too, ask again with less of the record."""
        plain = dataclasses.replace(record, headers={})
        empty = dataclasses.replace(plain, value=None)
        for shown in (record, plain, empty, dataclasses.replace(empty, key=None)):
            try:
                return _writable(self._logic.on_error(shown, error))
            except Exception:
                log.exception("%s failed to answer an error; retrying with less of the record", self._logic.role)
                metrics.FALLBACKS.labels(self._logic.role, "refusal").inc()
        return []

    @property
    def role(self) -> str:
        """Name of the hosted role."""
        return self._logic.role

    def is_rebalancing(self) -> bool:
        """Whether its partitions are about to move: who waits now keeps the whole group waiting."""
        return bool(self.app.rebalancing)

    def not_ready(self) -> str:
        """Why it reads nothing yet; any thread may ask."""
        return self._schemas.why if self._loop else f"joins its group{self._words.suffix()}"

    def not_alive(self) -> str:
        """Why only a new process helps; any thread but the loop's own may ask."""
        if self._loop is None or self._loop.is_closed():  # starting, or stopped and soon gone
            return ""
        answer = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            answer.result(LOOP_ANSWER_S)
        except TimeoutError:
            answer.cancel()
            return f"the event loop did not answer within {LOOP_ANSWER_S} s"
        return "the Faust app has crashed" if self.app.crashed else ""

    async def _acknowledge(self) -> None:
        self._loop = asyncio.get_running_loop()
        while True:
            event, record, taken_s, hop, sent = await self._unacked.get()
            for each in sent:
                await self._written(record, each)
            event.ack()
            self._hop_s.observe(time.monotonic() - taken_s)
            spans.end(hop, [each for each, _ in sent])
            self._slots.release()

    async def _written(self, record: Incoming, sent: Sent) -> None:
        """Wait for one acknowledgement, or for that of the answer where the topic never takes what was sent."""
        refused: list[Sent] = [sent]
        for _ in range(REFUSALS):
            again: list[Sent] = []
            for outgoing, future in refused:
                try:
                    await self._delivered(outgoing, future)
                except RecordTooLarge as error:
                    again = self._sent_instead(record, outgoing, error)
                    break  # the answer is one: the rest of what it replaces is not waited for
            if not again:
                return
            refused = again
        log.critical("%s cannot write why it serves %s/%d@%d not; going on", self._logic.role, *_place(record))
        metrics.FALLBACKS.labels(self._logic.role, "letter-lost").inc()

    def _sent_instead(self, record: Incoming, refused: Outgoing, error: RecordTooLarge) -> list[Sent]:
        self._logic.on_undelivered(refused)
        metrics.FALLBACKS.labels(self._logic.role, "refused-size").inc()
        self._report(record, error)
        if refused.topic == EVENTS:  # a note beside what counts
            return []
        return [(each, self._producer.send(each)) for each in self._refusal(record, error)]

    async def _delivered(self, record: Outgoing, future: Future[Delivered]) -> None:
        """Wait until it is written, as often as it takes. Raises RecordTooLarge."""
        for sends, wait_s in enumerate(RESEND_WAITS_S, 1):
            try:
                # a report that is already here must not cost a turn of the loop
                delivered = future.result() if future.done() else await asyncio.wrap_future(future)
                self._logic.on_delivered(record, delivered)
                return
            except RecordTooLarge:
                await self._ask_limits()
                if size_of(record) > LIMITS.of(record.topic) or sends > SENDS_ALONE:
                    LIMITS.refused(record)
                    raise
                log.exception("%s writes a record again, without company", self._logic.role)
            except DeliveryFailed:
                log.exception("%s writes a record again in %g s", self._logic.role, wait_s)
            metrics.RESENDS.labels(self._logic.role).inc()
            await asyncio.sleep(wait_s)
            future = self._producer.send(record)
        # going on would ack what is not written; the restarted process reads the record again
        sends = len(RESEND_WAITS_S)
        log.critical("%s gives up after %d sends to %s; ending the process", self._logic.role, sends, record.topic)
        os._exit(70)

    async def _ask_limits(self) -> None:
        with contextlib.suppress(PochadeError):  # then what is known has to do
            await asyncio.to_thread(ask, self._settings)


def _place(record: Incoming) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _writable(records: Sequence[Outgoing]) -> Sequence[Outgoing]:
    for record in records:
        LIMITS.check(record)
    return records


def _app(settings: Settings, role: str) -> App:
    session_s = settings.kafka.session_timeout_ms / 1000
    datadir = settings.home / "faust" / f"{role}-{os.getpid()}"  # one a process; nothing is kept in it
    create_private(datadir)
    config = client_config(settings)
    addresses = config["bootstrap.servers"].split(",")
    return App(
        f"{settings.kafka.prefix}.{role}",
        broker=[f"kafka://{address}" for address in addresses],
        autodiscover=False,
        web_enabled=False,
        datadir=str(datadir),
        store="memory://",
        topic_disable_leader=True,
        topic_allow_declare=False,
        stream_wait_empty=True,
        stream_buffer_maxsize=256,
        consumer_auto_offset_reset="earliest",
        broker_session_timeout=session_s,
        broker_heartbeat_interval=session_s / 3,
        broker_request_timeout=session_s * 5,
        broker_commit_interval=0.5,
        broker_max_poll_records=500,
        consumer_metadata_max_age_ms=METADATA_MS,
        producer_acks=-1,
        producer_linger=0,
        **faust_options(security_of(config)),
    )


def _incoming(event: EventT[Any], prefix: str) -> Incoming:
    message = event.message
    headers = message.headers
    pairs = headers.items() if isinstance(headers, dict) else headers or []
    return Incoming(
        topic=message.topic.removeprefix(prefix + "."),
        partition=message.partition,
        offset=message.offset,
        timestamp_ms=round((message.timestamp or 0) * 1000),
        key=message.key,
        value=message.value,
        headers={name: value or b"" for name, value in pairs},
    )
