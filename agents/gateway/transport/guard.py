"""Checks before the app: limits of body size, time and concurrent requests, foreign hosts, request ids, counters."""

import asyncio
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agents.gateway.refusals import Refusal
from agents.gateway.transport.bodies import is_form, refused
from schemas.ids import new_request_id
from streams import metrics
from streams.settings import EVERY_PAGE, LOOPBACK, Gateway
from streams.tracing import conventions as names
from streams.tracing import spans

OURS: Final = frozenset({*LOOPBACK, "[::1]"})
EDITS: Final = "/v1/images/edits"
PREDICTIONS: Final = "/v1/predictions"
FILES: Final = "/v1/files"
UPLOADS: Final = frozenset({EDITS, PREDICTIONS, FILES})  # whose forms carry images


class Guard:
    """An ASGI app around the app."""

    def __init__(self, app: ASGIApp, limits: Gateway) -> None:
        self._app = app
        self._limits = limits
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            return
        state = scope.setdefault("state", {})
        state |= {"request_id": new_request_id(), "base_url": self._limits.public_url}
        statuses: list[int] = []

        async def send_with_request_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                MutableHeaders(scope=message)["x-request-id"] = state["request_id"]
            await send(message)

        most, setting, headers = self._limits.max_body_bytes, "max_body_bytes", Headers(scope=scope)
        if scope["path"] in UPLOADS and is_form(headers):
            most, setting = self._limits.max_upload_bytes, "max_upload_bytes"
        limit = f"the body must have at most {most} bytes (gateway.{setting})"
        refusal = self._refusal(headers, most, limit)
        self._open += 1
        metrics.GATEWAY_OPEN.inc()
        try:
            if refusal is not None:
                await refused(refusal)(scope, receive, send_with_request_id)
            else:
                await self._answered(scope, self._limited(receive, most, limit), send_with_request_id)
        finally:
            self._open -= 1
            metrics.GATEWAY_OPEN.dec()
            handler = getattr(scope.get("endpoint"), "__name__", "none")
            metrics.GATEWAY_REQUESTS.labels(handler, str(statuses[0] if statuses else 0)).inc()

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, in a span of its own if its trace is recorded."""
        with spans.serving("gateway", scope["method"], Headers(scope=scope).get("traceparent", "")) as span:
            if span is None:
                await self._app(scope, receive, send)
                return

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set({names.STATUS: message["status"]})
                    if message["status"] >= 500:
                        span.fail(str(message["status"]))
                await send(message)

            await self._app(scope, receive, noted)

    def _refusal(self, headers: Headers, most: int, limit: str) -> Refusal | None:
        if (foreign := self._foreign(headers)) is not None:
            return foreign
        if self._open >= self._limits.max_open:
            reason = f"{self._open} requests are open, and gateway.max_open is {self._limits.max_open}"
            return Refusal("busy", reason, retry_after_ms=1000)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length[:18]) > most:
            return Refusal("too-large", f"{limit}: got {length:.20}")
        return None

    def _foreign(self, headers: Headers) -> Refusal | None:
        """Return the refusal of a page of another site, or of a request for a foreign host name.

        If keys are required any host name is allowed, as a page without a key gets nothing. The origin `null` is
        foreign: any site's page has it in a sandboxed frame, which may send a form without a preflight.
        """
        host, origin = headers.get("host", ""), headers.get("origin", "")
        if self._limits.authentication == "none" and host and not is_ours(f"//{host}"):
            way = "for other names set gateway.authentication=bearer, and gateway.public_url where a proxy leads here"
            return Refusal("host", f"host must be one of {', '.join(LOOPBACK)}: got {host!r:.80}; {way}")
        allowed = self._limits.origins
        if not origin or origin in allowed or EVERY_PAGE in allowed or is_ours(origin):
            return None
        known = ", ".join((*LOOPBACK, *allowed))
        return Refusal("host", f"origin must be one of {known} (gateway.origins): got {origin!r:.80}")

    def _limited(self, receive: Receive, most: int, limit: str) -> Receive:
        """Return a `receive` that refuses bodies above `most` bytes or slower than the limit."""
        read, timed = 0, in_time(receive, self._limits.client_timeout_s)

        async def limited() -> Message:
            nonlocal read
            try:
                message = await timed()
            except TimeoutError:
                metrics.GATEWAY_LEFT.labels("slow-body").inc()
                limit_s = self._limits.client_timeout_s
                raise Refusal(
                    "slow-body", f"the body must come within {limit_s:g} s (gateway.client_timeout_s)"
                ) from None
            read += len(message.get("body", b""))
            if read > most:
                raise Refusal("too-large", f"{limit}: got more than {read - 1}")
            return message

        return limited


def in_time(receive: Receive, limit_s: float) -> Receive:
    """Return a `receive` that raises TimeoutError where a body is not whole after `limit_s`."""
    is_whole, end_s = False, asyncio.get_running_loop().time() + limit_s

    async def timed() -> Message:
        nonlocal is_whole
        async with asyncio.timeout_at(None if is_whole else end_s):
            message = await receive()
        is_whole = not message.get("more_body", False)
        return message

    return timed


def is_ours(address: str) -> bool:
    """Whether an address names this machine: `//HOST:PORT`, or a URL."""
    try:
        return (urlsplit(address).hostname or "") in OURS
    except ValueError:
        return False
