"""What stands before the app: limits of bodies, of time and of requests at once, foreign hosts, ids, and counters."""

import asyncio
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agents.gateway.http_bodies import refused
from agents.gateway.refusals import Refusal
from schemas.ids import new_request_id
from streams import metrics
from streams.settings import LOOPBACK, Gateway

OURS: Final = frozenset({*LOOPBACK, "[::1]"})
SAME: Final = ("", "null")  # origins of what is no other site's page


class Guard:
    """An ASGI app around the app."""

    def __init__(self, app: ASGIApp, limits: Gateway) -> None:
        self._app = app
        self._limits = limits
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or have it answered."""
        if scope["type"] != "http":
            return
        state = scope.setdefault("state", {})
        state["request_id"] = new_request_id()
        statuses: list[int] = []

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                MutableHeaders(scope=message)["x-request-id"] = state["request_id"]
            await send(message)

        refusal = self._refusal(Headers(scope=scope))
        self._open += 1
        metrics.GATEWAY_OPEN.inc()
        try:
            if refusal is not None:
                await refused(refusal)(scope, receive, told)
            else:
                await self._app(scope, self._limited(receive), told)
        finally:
            self._open -= 1
            metrics.GATEWAY_OPEN.dec()
            handler = getattr(scope.get("endpoint"), "__name__", "none")
            metrics.GATEWAY_REQUESTS.labels(handler, str(statuses[0] if statuses else 0)).inc()

    def _refusal(self, headers: Headers) -> Refusal | None:
        host, origin = headers.get("host", ""), headers.get("origin", "")
        for name, value in (("host", f"//{host}"), ("origin", "" if origin in SAME else origin)):
            if value and not _is_ours(value):  # a page of another site, or a name of its own that leads here
                return Refusal("host", f"{name} must be one of {', '.join(LOOPBACK)}: got {value.strip('/')!r:.80}")
        if self._open >= self._limits.max_open:
            reason = f"{self._open} requests are open, and gateway.max_open is {self._limits.max_open}"
            return Refusal("busy", reason, retry_after_ms=1000)
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length[:18]) > self._limits.max_body_bytes:
            return self._too_large(f"got {length:.20}")
        return None

    def _too_large(self, got: str) -> Refusal:
        limit = f"the body must have at most {self._limits.max_body_bytes} bytes (gateway.max_body_bytes)"
        return Refusal("too-large", f"{limit}: {got}")

    def _limited(self, receive: Receive) -> Receive:
        """Return a `receive` that ends bodies which are too large, or too long on their way."""
        read, is_whole = 0, False
        end_s = asyncio.get_running_loop().time() + self._limits.client_timeout_s

        async def limited() -> Message:
            nonlocal read, is_whole
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout_at(end_s):
                    message = await receive()
            except TimeoutError:
                metrics.GATEWAY_LEFT.labels("slow-body").inc()
                limit_s = self._limits.client_timeout_s
                raise Refusal(
                    "slow-body", f"the body must come within {limit_s:g} s (gateway.client_timeout_s)"
                ) from None
            read += len(message.get("body", b""))
            if read > self._limits.max_body_bytes:
                raise self._too_large(f"got more than {read - 1}")
            is_whole = not message.get("more_body", False)
            return message

        return limited


def _is_ours(address: str) -> bool:
    try:
        return (urlsplit(address).hostname or "") in OURS
    except ValueError:
        return False
