"""Live pages: a part is rendered at most once a second for all its viewers, and sent if it has changed."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agents.gateway.streaming.wire import HEADERS, event, while_there
from streams import metrics

TICK_S: Final = 1.0
KEEPALIVE_TICKS: Final = 15  # without a change, after which a comment is sent
PART_TTL_S: Final = 30.0  # for which an unused part stays in memory

Render = Callable[[], Awaitable[str]]


class Parts:
    """The recently rendered parts by address; used on one event loop."""

    def __init__(self, most: int) -> None:
        """`most`: live pages at once."""
        self._most = most
        self._viewers = 0
        self._parts: dict[str, tuple[float, str]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._is_stopped = False

    @property
    def is_full(self) -> bool:
        """Whether no more live pages are taken."""
        return self._viewers >= self._most

    def stop(self) -> None:
        """End all live pages; their browsers reconnect."""
        self._is_stopped = True

    async def part(self, address: str, render: Render, *, is_fresh: bool = False) -> str:
        """Return the part at an address, rendered within the last second, or now if `is_fresh`."""
        clock_s = asyncio.get_running_loop().time
        async with self._locks.setdefault(address, asyncio.Lock()):
            at_s, text = self._parts.get(address, (0.0, ""))
            if is_fresh or clock_s() - at_s >= TICK_S * 0.9:
                text = await render()
                self._parts[address] = clock_s(), text
        for old in [each for each, (at_s, _) in self._parts.items() if clock_s() - at_s > PART_TTL_S]:
            self._parts.pop(old)
            self._locks.pop(old, None)
        return text

    async def changes(self, address: str, render: Render, may_see: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
        """Yield an event with the part at each change, until the console stops or `may_see` returns False."""
        last, quiet = b"", 0
        while not self._is_stopped and may_see():
            text = await self.part(address, render)
            digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=16).digest()
            if digest != last:
                last, quiet = digest, 0
                yield event("part", text)
            else:
                quiet += 1
                if quiet >= KEEPALIVE_TICKS:
                    quiet = 0
                    yield b": nothing new\n\n"
            await asyncio.sleep(TICK_S)

    @contextlib.contextmanager
    def viewing(self) -> Iterator[None]:
        """Count a live page."""
        self._viewers += 1
        metrics.CONSOLE_VIEWERS.inc()
        try:
            yield
        finally:
            self._viewers -= 1
            metrics.CONSOLE_VIEWERS.dec()


class Live(Response):
    """An answer of events, which ends as its viewer leaves."""

    def __init__(self, parts: Parts, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._parts = parts
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  ASGI's own
        """Send the events until they end or the viewer leaves."""
        with self._parts.viewing():
            await while_there(lambda _leaving: self._send(send), receive, self._events)

    async def _send(self, send: Send) -> bool:
        """Return True: all was sent."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for each in self._events:
            await send({"type": "http.response.body", "body": each, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return True
