"""A gateway's client of the pipeline: submits requests, awaits results, cancels, and reads images.

It keeps nothing that a restart needs: a request lies on `prompts` before its client gets an answer.
"""

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, TypeVar

from starlette.requests import Request

from agents.gateway.formats import Format, encoded
from agents.gateway.jobs import Job, JobView
from agents.gateway.openai_images import PARAMS
from agents.gateway.refusals import SERVER_TYPE, Kind, Refusal, refusal_of
from agents.gateway.repetitions.marks import MARK, Repetition, Repetitions
from agents.gateway.streaming.wire import KEEPALIVE_S, has_left
from agents.gateway.webhooks.open_webhooks import record_of
from planner.serving.backoff import backoff_s
from planner.serving.decisions import DEADLINE
from planner.serving.unreadable import is_young
from schemas.errors import PochadeError
from schemas.messages import GenerateRequest, Result, Webhook
from schemas.record import Delivered, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.headers import ANY_FORM, FACT, PREVIEWS
from streams.kafka.producers.writing import DeliveryFailed
from streams.operator.client import RequestClient
from streams.store.port import ImageStore, StoreUnavailable, Unreadable

T = TypeVar("T")

ACK_S: Final = 30.0  # for the broker to take a record
LATE_S: Final = 5.0  # after a deadline, for the pipeline to say so
RETRY_MS: Final = 10_000  # by which a worker may have begun to serve what a request names
READ_S: Final = 5.0  # that an image which cannot be read is read again, while its client waits
STORE_KIND: Final = Kind(503, SERVER_TYPE, may_repeat=False)  # the images are there: a repetition makes others


class ClientGone(Exception):
    """The client has hung up: an answer would not be read."""


class PipelineClient:
    """The handlers' access to the pipeline; used on one event loop."""

    def __init__(
        self, client: RequestClient, jobs: JobView, store: ImageStore, caught_up: threading.Event,
        repetitions: Repetitions, read_on: Callable[[], Coroutine[Any, Any, None]],
        write: Callable[[Outgoing], "Future[Delivered]"],
    ) -> None:  # fmt: skip
        """`caught_up`: whether the past is read. `read_on`: `LogEnd.reached`."""
        self._client = client
        self._write = write
        self._jobs = jobs
        self._store = store
        self._caught_up = caught_up
        self._repetitions = repetitions
        self._read_on = read_on
        self.seal: Callable[[bytes, bytes], bytes] = lambda _stored, data: data  # signs another form of a stored image

    async def begin(
        self, request: GenerateRequest, tenant: str, repetition: Repetition, end_user: str = "",
        hook: Webhook | None = None, previews: int = 0, any_form: bool = False, late: Refusal | None = None,
    ) -> GenerateRequest:  # fmt: skip
        """Write a tenant's request, or join the one that it repeats; return the request on the topic.

        `end_user`: as the client states it; the record's headers carry its digest. `hook`: its webhook, written to its
        topic before the request. `previews`: number of previews of denoising steps. `any_form`: whether its input
        images may be converted although it is strict. `late`: raised if its deadline has passed and it joins none.

        Raises Refusal: the broker did not acknowledge the record in time.
        """
        request = replace(request, tenant=tenant)
        if repetition.is_keyed:
            request = replace(request, request_id=self._repetitions.id_of(repetition))
            joined = request.request_id if self._jobs.get(request.request_id, tenant) is not None else None
        else:
            joined = await self._first_try(repetition) if repetition.tries else None
        if joined is None:
            if late is not None:
                raise late
            if hook is not None:
                hook = replace(hook, request_id=request.request_id)
                await self._acknowledged(self._write(record_of(hook, now_ms())), request.request_id)
            facts = {PREVIEWS: str(previews)} if previews else {}
            facts |= {ANY_FORM: "1"} if any_form and request.options.strict else {}
            facts = {MARK: repetition.mark} | {name.removeprefix(FACT): value for name, value in facts.items()}
            await self._submit(request, facts, end_user)
            return request
        metrics.GATEWAY_JOINED.labels("key" if repetition.is_keyed else "count").inc()
        return replace(request, request_id=joined)

    async def _first_try(self, repetition: Repetition) -> str | None:
        """Return the request that a repetition joins, after reading `prompts` to its end; None if there is none."""
        try:
            await self._read_on()
        except PochadeError as error:
            raise Refusal("unavailable", str(error), retry_after_ms=1000) from error
        return self._repetitions.join(repetition, now_ms())

    async def _submit(self, request: GenerateRequest, facts: dict[str, str], end_user: str) -> None:
        if end_user:
            facts["end_user"] = hashlib.sha256(end_user.encode(errors="replace")).hexdigest()[:16]
        await self._acknowledged(self._client.submit(request, facts), request.request_id)
        self._jobs.on_request(request)

    async def cancel(self, request_id: str, tenant: str, wait_s: float) -> Job:
        """End a tenant's request if it is open, and wait up to `wait_s` for its result. Raises Refusal."""
        job = self.job(request_id, tenant)
        if job.result is None:
            await self._acknowledged(self._client.cancel(request_id, "cancelled by its client, over HTTP"), request_id)
            await self._jobs.wait(request_id, wait_s)
        return self.job(request_id, tenant)

    async def leave(self, request_id: str) -> None:
        """Cancel a request whose client hung up, unless another client of this gateway waits for it."""
        if not self._jobs.is_awaited(request_id) and self._jobs.result_of(request_id) is None:
            with contextlib.suppress(Refusal):  # the broker is away: it goes on, as by default
                cancelling = self._client.cancel(request_id, "its client hung up (gateway.on_hang_up)")
                await self._acknowledged(cancelling, request_id)

    async def _acknowledged(self, delivery: "Future[Delivered]", request_id: str) -> None:
        try:
            await asyncio.wait_for(asyncio.wrap_future(delivery), ACK_S)
        except DeliveryFailed as error:
            raise Refusal("unavailable", str(error), retry_after_ms=1000) from error
        except TimeoutError:
            waited = f"the broker has not taken request {request_id} within {ACK_S:g} s, and may yet"
            raise Refusal("waiting", waited) from None

    def job(self, request_id: str, tenant: str) -> Job:
        """Return a tenant's job. Raises Refusal if it is not remembered."""
        job = self._jobs.get(request_id, tenant)
        if job is None:
            if not self._caught_up.is_set():
                raise Refusal(
                    "unavailable", "the gateway still reads the last requests: ask again", retry_after_ms=1000
                )
            known = f"tenant {tenant!r:.80} has no request {request_id!r:.80} that this gateway remembers"
            raise Refusal("not-found", f"{known}: none of its requests has this id, or it ended long ago")
        return job

    def known(self, request: GenerateRequest, tenant: str, result: Result | None) -> Job:
        """Return a tenant's job with this result, also if the request is no longer remembered."""
        job = self._jobs.get(request.request_id, tenant) or Job(request.request_id, request.created_ms, request)
        return replace(job, result=result)

    def page(self, tenant: str, size: int, before: tuple[int, str]) -> list[Job]:
        """Return up to `size` of a tenant's requests created before a (created_ms, id), the newest first."""
        return self._jobs.page(tenant, size, before)

    async def result(self, request_id: str, http: Request, timeout_s: float) -> Result | None:
        """Return a request's result; None if it has none within `timeout_s`.

        Raises:
            ClientGone: the client hung up. The request goes on; any gateway answers for it later.
            Refusal: the gateway stops.
        """
        result = await unless_gone(self._jobs.wait(request_id, timeout_s), http)
        if result is None and self._jobs.is_stopped:
            raise _stops(request_id)
        return result

    async def news(self, request_id: str, timeout_s: float) -> AsyncGenerator[Job | None, None]:
        """Yield a request's job at each change, up to its end; None after each silence.

        Raises Refusal: it has no end within this time, or the gateway stops.
        """
        clock_s = asyncio.get_running_loop().time
        end_s = clock_s() + timeout_s
        with self._jobs.follow(request_id) as feed:
            job = feed.job
            yield job
            while job.result is None:
                if self._jobs.is_stopped:
                    raise _stops(request_id)
                if clock_s() >= end_s:
                    raise has_no_result(request_id, timeout_s, self._jobs.lacking(job.request) if job.request else "")
                try:
                    async with asyncio.timeout(min(KEEPALIVE_S, end_s - clock_s())):
                        await feed.changed()
                except TimeoutError:
                    yield None
                else:
                    job = feed.job
                    yield job

    def refused(self, request: GenerateRequest, result: Result | None, waited_s: float) -> Refusal:
        """Return the refusal of a request without an image; if it was late, with what no worker serves.

        `result`: not COMPLETED; None if it has none after `waited_s`.
        """
        lacks = self._jobs.lacking(request) if result is None or result.code == DEADLINE else ""
        if result is None:
            return has_no_result(request.request_id, waited_s, lacks)
        if not lacks:
            return refusal_of(result, PARAMS)
        reason = f"{lacks}, and the request had no result within its time: send it again once one does"
        return Refusal(DEADLINE, reason, retry_after_ms=RETRY_MS)

    async def images(self, result: Result, wanted: Format) -> list[bytes]:
        """Return a result's images in a format. Raises as `image`."""
        return [await self.image(uri, wanted, result.ended_ms) for uri in result.image_uris]

    async def image(self, uri: str, wanted: Format, ended_ms: int = 0) -> bytes:
        """Return an image in a format.

        `ended_ms`: time of the result that names it; an unreadable image of a recent result is retried for READ_S.
        Raises Refusal if it is deleted, cannot be read yet, or the store does not answer.
        """
        clock_s = asyncio.get_running_loop().time
        end_s = clock_s() + (READ_S if is_young(now_ms() - ended_ms) else 0.0)
        failures = 0
        while True:
            failures += 1
            try:
                return await asyncio.to_thread(self._encoded, uri, wanted)
            except (StoreUnavailable, Unreadable) as error:
                if clock_s() + (pause_s := backoff_s(failures)) > end_s:
                    raise _unread(error, is_young(now_ms() - ended_ms)) from error
            except PochadeError as error:
                raise Refusal("gone", str(error)) from error
            await asyncio.sleep(pause_s)

    def _encoded(self, uri: str, wanted: Format) -> bytes:
        data = encoded(stored := self._store.get(uri), wanted)
        return data if data is stored else self.seal(stored, data)


def _unread(error: PochadeError, is_young: bool) -> Refusal:
    if isinstance(error, StoreUnavailable):
        return Refusal("unavailable", f"the image store is away: {error}", kind=STORE_KIND)
    if is_young:
        return Refusal("unavailable", f"the image cannot be read yet: {error}", kind=STORE_KIND)
    return Refusal("gone", str(error))


async def unless_gone(answer: Coroutine[Any, Any, T], http: Request) -> T:
    """Return the result of `answer`, which is cancelled if its client hangs up. Raises ClientGone then."""
    answering = asyncio.create_task(answer)
    leaving = asyncio.create_task(has_left(http.receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            metrics.GATEWAY_LEFT.labels("hung-up").inc()
            raise ClientGone
        return answering.result()
    finally:
        for task in (answering, leaving):
            task.cancel()
        await asyncio.wait({answering, leaving})


def _stops(request_id: str) -> Refusal:
    return Refusal("stopping", f"this gateway stops; request {request_id} goes on: {_where(request_id)}")


def _where(request_id: str) -> str:
    return f"ask for it at /v1/predictions/{request_id}"


def has_no_result(request_id: str, waited_s: float, lacks: str) -> Refusal:
    """Return the refusal of a request without a result in time. `lacks`: what no worker serves; "" if not known."""
    why = f", as {lacks}" if lacks else ""
    return Refusal("waiting", f"request {request_id} has no result after {waited_s:g} s{why}: {_where(request_id)}")
