"""Delivers webhooks while it is this gateway's turn: one task for each request that has events to deliver.

A delivery is recorded on the topic before the next event is delivered. If this gateway dies, another continues: it
repeats the attempt that was in progress, with the same id.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol

from agents.gateway.jobs import Feed, Job, JobView
from agents.gateway.webhooks.notices import begun_anew, failed, is_over, kind_of, next_event, theirs, with_delivered
from agents.gateway.webhooks.open_webhooks import OpenWebhooks, ending_of, record_of
from agents.gateway.webhooks.posting import NotDelivered
from agents.gateway.webhooks.signatures import headers, id_of, secret_of
from schemas.errors import PochadeError
from schemas.messages import Webhook
from schemas.record import Delivered, Incoming, Outgoing
from schemas.topics import WEBHOOKS
from streams import metrics
from streams.codec.headers import dead_letter
from streams.kafka.producers.writing import DeliveryFailed
from streams.settings import Webhooks

log = logging.getLogger(__name__)

AT_ONCE: Final = 8  # attempts of one tenant, so that slow receivers of one do not hold up those of others
PAUSE_MS: Final = 500  # between two events of one request that has not ended, as at Replicate
OLD_MS: Final = 60_000  # age from which a request that this gateway does not know is looked up on the topics
FAULT_S: Final = 60.0
BROKER_RETRY_S: Final = 1.0  # from a call that the broker failed to the next
UNENDED_S: Final = 86_400.0  # after the latest deadline, until a request that has no end is no longer waited for


class WebhookFailed(PochadeError):
    """A webhook that was given up."""


class Posts(Protocol):
    """The part of `Poster` that is used."""

    async def post(self, url: str, headers: dict[str, str], body: bytes) -> None:
        """Post a body. Raises NotDelivered."""


class HasTurn(Protocol):
    """The part of `Turn` that is used."""

    is_ours: bool

    def start(self, ring: Callable[[], None]) -> None:
        """Take part."""


Shown = Callable[[Job, str, str], dict[str, Any]]  # a job, the base of addresses, and the tenant -> a prediction
Write = Callable[[Outgoing], "Future[Delivered]"]
ReadRecords = Callable[[int, set[bytes]], Sequence[Incoming]]  # records of these keys since a moment in ms; blocks


class WebhookDelivery:
    """Used on one event loop."""

    def __init__(
        self,
        hooks: OpenWebhooks,
        jobs: JobView,
        turn: HasTurn,
        poster: Posts,
        write: Write,
        read_records: ReadRecords,
        shown: Shown,
        limits: Webhooks,
        key: bytes,
        max_deadline_s: float,
        clock_ms: Callable[[], int],
        draw: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`key`: from which tenants' secrets are derived. `draw`: uniform in [0, 1)."""
        self._hooks = hooks
        self._jobs = jobs
        self._turn = turn
        self._poster = poster
        self._write_record = write
        self._read_records = read_records
        self._shown = shown
        self._limits = limits
        self._key = key
        self._unended_ms = round(1000 * (max_deadline_s + UNENDED_S))
        self._clock_ms = clock_ms
        self._draw = draw
        self._sleep = sleep
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, int] = {}  # request -> offset of the record by which this gateway has ended its webhook
        self._tenants: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE))

    async def run(self) -> None:
        """Deliver until cancelled."""
        loop, bell = asyncio.get_running_loop(), asyncio.Event()

        def ring() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(bell.set)

        self._hooks.on_change(ring)
        was_ours = False
        try:
            while True:
                await bell.wait()
                bell.clear()
                changed, is_ours = self._hooks.changed(), self._turn.is_ours
                if changed:
                    self._turn.start(ring)
                if is_ours != was_ours:
                    changed, was_ours = self._hooks.ids() | self._tasks.keys(), is_ours
                self._follow(changed, is_ours=is_ours)
        finally:
            self._follow(set(self._tasks), is_ours=False)

    def _follow(self, changed: set[str], *, is_ours: bool) -> None:
        """Start the tasks of webhooks that are ours now, and cancel the others."""
        begun: list[Webhook] = []
        for request_id in changed:
            found = self._hooks.get(request_id)
            if found is None or not is_ours:
                if found is None:
                    self._ended.pop(request_id, None)
                if (task := self._tasks.pop(request_id, None)) is not None:
                    task.cancel()
                continue
            offset, hook = found
            if request_id not in self._tasks and offset > self._ended.get(request_id, -1):
                begun.append(hook)
        now_ms = self._clock_ms()
        old = [each for each in begun if self._is_unknown(each, now_ms)]
        looked_up = asyncio.create_task(self._learn(old)) if old else None
        for hook in begun:
            self._tasks[hook.request_id] = asyncio.create_task(self._serve(hook, looked_up))

    def _is_unknown(self, hook: Webhook, now_ms: int) -> bool:
        may_be_missed = hook.created_ms < now_ms - OLD_MS or not self._jobs.is_served(hook.tenant)
        return may_be_missed and self._jobs.result_of(hook.request_id) is None

    async def _learn(self, old: list[Webhook]) -> None:
        """Read the records of requests that the view of jobs has forgotten or never had."""
        since_ms, keys = min(hook.created_ms for hook in old) - OLD_MS, {hook.request_id.encode() for hook in old}
        while True:
            try:
                records = await asyncio.to_thread(self._read_records, max(1, since_ms), keys)
                break
            except PochadeError as error:
                metrics.FALLBACKS.labels("gateway", "webhooks-look-up").inc()
                log.warning("cannot look up the requests of %d webhooks, retrying: %s", len(old), error)
                await self._sleep(BROKER_RETRY_S)
        for record in records:
            self._jobs.on_record(record)

    async def _serve(self, hook: Webhook, looked_up: "asyncio.Task[None] | None") -> None:
        """Deliver all events of one request, and end its webhook."""
        request_id = hook.request_id
        while True:
            try:
                with self._jobs.follow(request_id, is_of_any_tenant=True) as feed:
                    if looked_up is not None:
                        await asyncio.shield(looked_up)
                    await self._deliver_events(hook, feed)
                break
            except Exception:  # a fault of ours: its webhook stays open, and those of other requests go on
                metrics.FALLBACKS.labels("gateway", "webhooks-fault").inc()
                log.exception("cannot deliver the webhook of request %s, retrying in %g s", request_id, FAULT_S)
                await self._sleep(FAULT_S)
                hook = (self._hooks.get(request_id) or (0, hook))[1]
        delivered = await self._written(ending_of(hook))
        self._ended[request_id] = delivered.offset
        self._tasks.pop(request_id, None)

    async def _deliver_events(self, hook: Webhook, feed: Feed) -> None:
        free_ms = 0  # moment of the next event of a request that has not ended
        while not is_over(hook, job := theirs(feed.job, hook)):
            event, now_ms = next_event(hook, job), self._clock_ms()
            from_ms = hook.next_ms if hook.pending or job.result is not None else free_ms
            if event is None:
                if not await self._has_news(hook, feed):
                    await self._give_up(hook, "", f"request {hook.request_id} has not ended")
                    return
            elif from_ms > now_ms:  # notes that come meanwhile are delivered with this one
                await self._sleep((from_ms - now_ms) / 1000)
            else:
                hook = await self._attempt(hook, event, job)
                free_ms = self._clock_ms() + PAUSE_MS
                if not is_over(hook, theirs(feed.job, hook)):
                    await self._written(record_of(hook, self._clock_ms()))

    async def _has_news(self, hook: Webhook, feed: Feed) -> bool:
        left_ms = hook.created_ms + self._unended_ms - self._clock_ms()
        try:
            async with asyncio.timeout(max(0, left_ms) / 1000):
                await feed.changed()
        except TimeoutError:
            return False
        return True

    async def _attempt(self, hook: Webhook, event: str, job: Job) -> Webhook:
        """Attempt to deliver an event; return the webhook's new state."""
        webhook_id = id_of(hook.tenant, hook.request_id, event)
        try:
            async with self._tenants[hook.tenant]:
                body = json.dumps(self._shown(job, hook.base_url, hook.tenant)).encode()
                signed = headers(secret_of(self._key, hook.tenant), webhook_id, self._clock_ms() // 1000, body)
                await self._poster.post(hook.url, signed, body)
        except NotDelivered as error:
            return await self._repeat(hook, event, error)
        except PochadeError as error:  # of the store, that does not sign addresses
            return await self._repeat(hook, event, NotDelivered(str(error)))
        self._count(event, "delivered")
        return with_delivered(hook, event)

    async def _repeat(self, hook: Webhook, event: str, error: NotDelivered) -> Webhook:
        attempts = hook.attempts + 1
        if error.is_final or attempts >= self._limits.max_attempts:
            await self._give_up(hook, event, f"{error} ({attempts} attempts)")
            return with_delivered(hook, event)
        self._count(event, "failed")
        log.info("webhook %s of request %s failed, retrying: %s", kind_of(event), hook.request_id, error)
        return failed(hook, event, self._clock_ms(), self._draw())

    async def _give_up(self, hook: Webhook, event: str, why: str) -> None:
        """Write a webhook to the dlq; if redriven, it delivers this event and those behind it."""
        self._count(event, "dead-lettered")
        metrics.DEAD_LETTERS.labels("gateway", WebhookFailed.__name__).inc()
        log.warning("dead-lettered webhook %s of request %s: %s", kind_of(event), hook.request_id, why)
        now_ms = self._clock_ms()
        record = record_of(begun_anew(hook, event), now_ms)
        offset, _ = self._hooks.get(hook.request_id) or (0, hook)
        lies = Incoming(
            topic=WEBHOOKS, partition=0, offset=offset, timestamp_ms=now_ms, key=record.key, value=record.value,
            headers=record.headers,
        )  # fmt: skip
        fault = WebhookFailed(f"webhook {kind_of(event)} was not delivered: {why}")
        await self._written(dead_letter(lies, error=fault, role="gateway", request_id=hook.request_id))

    def _count(self, event: str, outcome: str) -> None:
        metrics.GATEWAY_WEBHOOKS.labels(kind_of(event) or "none", outcome).inc()

    async def _written(self, record: Outgoing) -> Delivered:
        """Write a record, however long the broker is away."""
        while True:
            try:
                return await asyncio.wrap_future(self._write_record(record))
            except DeliveryFailed as error:
                metrics.FALLBACKS.labels("gateway", "webhooks-write").inc()
                log.warning("the broker did not take a record of webhooks, retrying: %s", error)
                await self._sleep(BROKER_RETRY_S)
