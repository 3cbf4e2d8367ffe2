"""Server-sent events over HTTP. Source: WHATWG HTML, section 9.2.

Events are not queued: the next is generated once the one before is sent. `protocol.py` cuts a client that stops
reading; one that hangs up ends its stream at once.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agents.gateway.refusals import Refusal
from streams import metrics

log = logging.getLogger(__name__)

KEEPALIVE_S: Final = 15.0  # of silence, after which a comment keeps proxies from cutting the connection
KEEPALIVE: Final = b": still in work\n\n"
BEGUN: Final = b": begun\n\n"
HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store", "x-accel-buffering": "no",
}  # fmt: skip

Events = AsyncGenerator[bytes, None]


def event(name: str, data: str, event_id: str = "") -> bytes:
    """Return an event. `name` and `event_id` are ours; `data` may be of several lines."""
    lines = [f"id: {event_id}"] if event_id else []
    lines += [f"event: {name}", *(f"data: {line}" for line in data.splitlines() or [""])]
    return "\n".join((*lines, "", "")).encode()


class EventStream(Response):
    """An answer of events, which ends with them, or with what `refused` makes of a refusal."""

    def __init__(
        self,
        first: bytes,
        events: Events,
        refused: Callable[[Refusal], bytes],
        on_left: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`first`: what was taken from `events` before the answer began. `on_left`: called if the client hangs up."""
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._first = first
        self._events = events
        self._refused = refused
        self._on_left = on_left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, until they end or the client has hung up."""
        if not await while_there(lambda leaving: self._send(scope, send, leaving), receive, self._events):
            metrics.GATEWAY_LEFT.labels("hung-up").inc()
            if self._on_left is not None:
                await self._on_left()

    async def _send(self, scope: Scope, send: Send, leaving: "asyncio.Task[None]") -> bool:
        """Return whether all was sent; False: the client has left."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self._first, "more_body": True})
        try:
            async for part in self._events:
                await send({"type": "http.response.body", "body": part, "more_body": True})
                await asyncio.sleep(0)  # a cut wakes this task and the one that sees it: the next image is not read
                if leaving.done():
                    return False
        except Exception as error:  # the answer has begun: its end says what was wrong
            refusal = error if isinstance(error, Refusal) else self._failure(error, scope["state"]["request_id"])
            metrics.GATEWAY_STREAMS_REFUSED.labels(refusal.code).inc()
            await send({"type": "http.response.body", "body": self._refused(refusal), "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return True

    def _failure(self, error: Exception, request_id: str) -> Refusal:
        log.error("request %s could not be answered to its end", request_id, exc_info=error)
        return failure(request_id)


async def while_there(
    send: Callable[["asyncio.Task[None]"], Coroutine[Any, Any, bool]], receive: Receive, events: Events
) -> bool:
    """Run what sends events until it ends, or the client has hung up; return its answer, False where it was cut short.

    `send` is given the task that ends as the client leaves. The events are closed in any case.
    """
    leaving = asyncio.create_task(has_left(receive))
    sending = asyncio.create_task(send(leaving))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return sending.done() and sending.result()
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        await events.aclose()


async def has_left(receive: Receive) -> None:
    """Return once the client has hung up; the rest of its request's body is discarded."""
    while (await receive())["type"] != "http.disconnect":
        pass


def failure(request_id: str) -> Refusal:
    """Return the refusal for an internal error."""
    return Refusal("internal", f"the gateway failed; its log says why at request {request_id}")
