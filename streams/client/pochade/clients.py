"""The two shells: a blocking client and an asyncio one. They carry out what a transport asks for."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from pochade.exchange import Answer, Await, Events, Exchange, Lost, NextLine, Pause, Send
from pochade.gateway import Gateway
from pochade.requests import Options, Request, request_for
from pochade.values import Completed, End, Event, Explanation, Image, NotCompleted, Rejected

if TYPE_CHECKING:
    from types import TracebackType

    import httpx
    from typing_extensions import Unpack

    from pochade.exchange import Clock
    from pochade.kafka import Kafka

T = TypeVar("T")
Sent = tuple[Answer | Lost, Any]  # an answer, and the lines of its stream
WAIT_S = 300.0  # for the end of a request
CANCEL_S = 5.0  # that an interrupted `generate` waits for its cancellation
REASON = "cancelled by its client"
SUBMISSIONS = 3  # of one `generate`, while its request is rejected for now


class Client:
    """A blocking client of a deployment; any thread may use it. A context manager: closing it ends its connections."""

    def __init__(
        self,
        to: str | Gateway | Kafka = "http://127.0.0.1:8760",
        *,
        api_key: str = "",
        http: httpx.Client | None = None,
    ) -> None:
        """`to`: the URL of a gateway, or a transport. `http`: a client of your own, which you close yourself."""
        self._transport = Gateway(to, api_key=api_key) if isinstance(to, str) else to
        self._given, self._making = http, threading.Lock()
        self._made: httpx.Client | None = None

    def generate(self, prompt: str, *, timeout_s: float = WAIT_S, **options: Unpack[Options]) -> Completed:
        """Submit a request, wait for its images and return them; Ctrl-C cancels it.

        Raises:
            NotCompleted: it ended otherwise; `end` says how.
            StillOpen: it has not ended within `timeout_s`, and goes on.
        """
        request, submitted = request_for(prompt, options), list[str]()
        try:
            return self._run(generation(self._transport, request, timeout_s, submitted, time.monotonic))
        except KeyboardInterrupt:
            if submitted:
                with contextlib.suppress(Exception):
                    self.handle(submitted[-1]).cancel()
            raise

    def submit(self, prompt: str, **options: Unpack[Options]) -> Handle:
        """Submit a request; it is safe with the deployment when this returns."""
        request = request_for(prompt, options)
        return self.handle(self._run(self._transport.submit(request)))

    def handle(self, request_id: str) -> Handle:
        """Return the handle of a request of any process; nothing is contacted."""
        return Handle(self, request_id)

    def read(self, image: Image) -> bytes:
        """Return an image's bytes."""
        return self._run(self._transport.read(image))

    def ends(self, since_s: float = 600.0, *, is_following: bool = False) -> Iterator[End]:
        """Yield how requests ended in the last `since_s` seconds, and as they end if following. Over Kafka alone."""
        return (event.end for event in self._events(self._transport.ends(since_s, is_following)) if event.end)

    def close(self) -> None:
        """End the connections."""
        self._transport.close()
        if self._made is not None:
            self._made.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _run(self, exchange: Exchange[T]) -> T:
        return _last(self._events(exchange))

    def _events(self, exchange: Exchange[T] | Events) -> Generator[Event, None, T]:
        with contextlib.ExitStack() as opened, contextlib.closing(exchange):
            lines: Iterator[str] = iter(())
            answer: Any = None
            while True:
                try:
                    effect = exchange.send(answer)
                except StopIteration as stop:
                    return stop.value  # type: ignore[no-any-return]
                answer = None
                if isinstance(effect, Event):
                    yield effect
                elif isinstance(effect, NextLine):
                    answer = self._next_line(lines)
                elif isinstance(effect, Send):
                    opened.close()
                    answer, lines = self._sent(effect, opened)
                elif isinstance(effect, Pause):
                    time.sleep(effect.seconds)
                else:
                    answer = _awaited(effect)

    def _sent(self, send: Send, opened: contextlib.ExitStack) -> Sent:
        import httpx

        with self._making:
            if self._given is None and self._made is None:
                self._made = httpx.Client()
        http = self._given or self._made
        assert http is not None
        try:
            response = opened.enter_context(http.stream(**_arguments(send)))
            if send.is_streamed and response.status_code == 200:
                return Answer(200, dict(response.headers)), response.iter_lines()
            return Answer(response.status_code, dict(response.headers), response.read()), iter(())
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError):
            raise
        except httpx.TransportError as error:
            return Lost(str(error) or type(error).__name__), iter(())

    def _next_line(self, lines: Iterator[str]) -> str | None:
        import httpx

        try:
            return next(lines, None)
        except httpx.TransportError:
            return None


class Handle:
    """A request that was submitted: by this process, or by another that knew its id."""

    def __init__(self, client: Client, request_id: str) -> None:
        self._client, self._transport, self.request_id = client, client._transport, request_id

    def result(self, timeout_s: float = WAIT_S) -> End:
        """Wait for the end of the request and return it. Raises StillOpen: it goes on, and may be awaited again."""
        return self._client._run(self._transport.end(self.request_id, timeout_s))

    def events(self, after: str = "") -> Iterator[Event]:
        """Yield what happens to the request, from its beginning or behind a position, up to its end."""
        return self._client._events(self._transport.events(self.request_id, after))

    def cancel(self, reason: str = REASON) -> None:
        """End the request as Cancelled unless it has ended; `result` says which came first."""
        self._client._run(self._transport.cancel(self.request_id, reason))

    def explain(self) -> Explanation:
        """Return why the request ended as it did, or what it waits for."""
        return self._client._run(self._transport.explain(self.request_id))


class AsyncClient:
    """A client for asyncio, used on one event loop; else as `Client`, whose methods say what these do."""

    def __init__(
        self,
        to: str | Gateway | Kafka = "http://127.0.0.1:8760",
        *,
        api_key: str = "",
        http: httpx.AsyncClient | None = None,
    ) -> None:
        """`to`: the URL of a gateway, or a transport. `http`: a client of your own, which you close yourself."""
        self._transport = Gateway(to, api_key=api_key) if isinstance(to, str) else to
        self._given = http
        self._made: httpx.AsyncClient | None = None

    async def generate(self, prompt: str, *, timeout_s: float = WAIT_S, **options: Unpack[Options]) -> Completed:
        """Submit a request, wait for its images and return them; cancelling this task cancels the request."""
        import asyncio

        request, submitted = request_for(prompt, options), list[str]()
        try:
            return await self._run(generation(self._transport, request, timeout_s, submitted, time.monotonic))
        except asyncio.CancelledError:
            if submitted:
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(self.handle(submitted[-1]).cancel(), CANCEL_S)
            raise

    async def submit(self, prompt: str, **options: Unpack[Options]) -> AsyncHandle:
        """Submit a request; it is safe with the deployment when this returns."""
        request = request_for(prompt, options)
        return self.handle(await self._run(self._transport.submit(request)))

    def handle(self, request_id: str) -> AsyncHandle:
        """Return the handle of a request of any process; nothing is contacted."""
        return AsyncHandle(self, request_id)

    async def read(self, image: Image) -> bytes:
        """Return an image's bytes."""
        return await self._run(self._transport.read(image))

    def ends(self, since_s: float = 600.0, *, is_following: bool = False) -> AsyncIterator[End]:
        """Yield how requests ended in the last `since_s` seconds, and as they end if following. Over Kafka alone."""
        events = self._events(self._transport.ends(since_s, is_following), [])
        return (event.end async for event in events if event.end)

    async def aclose(self) -> None:
        """End the connections."""
        self._transport.close()
        if self._made is not None:
            await self._made.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _run(self, exchange: Exchange[T]) -> T:
        result: list[T] = []
        async for _ in self._events(exchange, result):
            raise AssertionError("this exchange has no events")
        return result[0]

    async def _events(self, exchange: Exchange[T] | Events, result: list[T]) -> AsyncGenerator[Event, None]:
        import asyncio

        async with contextlib.AsyncExitStack() as opened:
            opened_stream = await opened.enter_async_context(contextlib.AsyncExitStack())
            opened.callback(exchange.close)
            lines: Any = None
            answer: Any = None
            while True:
                try:
                    effect = exchange.send(answer)
                except StopIteration as stop:
                    result.append(stop.value)
                    return
                answer = None
                if isinstance(effect, Event):
                    yield effect
                elif isinstance(effect, NextLine):
                    answer = await self._next_line(lines)
                elif isinstance(effect, Send):
                    await opened_stream.aclose()
                    answer, lines = await self._sent(effect, opened_stream)
                elif isinstance(effect, Pause):
                    await asyncio.sleep(effect.seconds)
                else:
                    waited = asyncio.wrap_future(effect.future)
                    await asyncio.wait({waited}, timeout=effect.timeout_s)
                    answer = waited.result() if waited.done() else None

    async def _sent(self, send: Send, opened: contextlib.AsyncExitStack) -> Sent:
        import httpx

        if self._given is None and self._made is None:
            self._made = httpx.AsyncClient()
        http = self._given or self._made
        assert http is not None
        try:
            response = await opened.enter_async_context(http.stream(**_arguments(send)))
            if send.is_streamed and response.status_code == 200:
                return Answer(200, dict(response.headers)), response.aiter_lines()
            return Answer(response.status_code, dict(response.headers), await response.aread()), None
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError):
            raise
        except httpx.TransportError as error:
            return Lost(str(error) or type(error).__name__), None

    async def _next_line(self, lines: AsyncIterator[str]) -> str | None:
        import httpx

        try:
            return await anext(lines, None)
        except httpx.TransportError:
            return None


class AsyncHandle:
    """A request that was submitted, for asyncio; else as `Handle`, whose methods say what these do."""

    def __init__(self, client: AsyncClient, request_id: str) -> None:
        self._client, self._transport, self.request_id = client, client._transport, request_id

    async def result(self, timeout_s: float = WAIT_S) -> End:
        """Wait for the end of the request and return it. Raises StillOpen: it goes on, and may be awaited again."""
        return await self._client._run(self._transport.end(self.request_id, timeout_s))

    def events(self, after: str = "") -> AsyncIterator[Event]:
        """Yield what happens to the request, from its beginning or behind a position, up to its end."""
        return self._client._events(self._transport.events(self.request_id, after), [])

    async def cancel(self, reason: str = REASON) -> None:
        """End the request as Cancelled unless it has ended; `result` says which came first."""
        await self._client._run(self._transport.cancel(self.request_id, reason))

    async def explain(self) -> Explanation:
        """Return why the request ended as it did, or what it waits for."""
        return await self._client._run(self._transport.explain(self.request_id))


def _arguments(send: Send) -> dict[str, Any]:
    files = {name: (name, data) for name, data in send.files.items()} if send.files else None
    return {
        "method": send.method, "url": send.url, "headers": dict(send.headers), "content": send.content,
        "data": send.form, "files": files, "timeout": send.timeout_s,
    }  # fmt: skip


def _awaited(effect: Await) -> Any:
    from concurrent.futures import wait

    wait([effect.future], effect.timeout_s)
    return effect.future.result() if effect.future.done() else None


def _last(events: Generator[Event, None, T]) -> T:
    while True:
        try:
            next(events)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]


def generation(
    transport: Gateway | Kafka, request: Request, timeout_s: float, submitted: list[str], clock_s: Clock
) -> Exchange[Completed]:
    """Submit a request and wait for its images, again where it is rejected for now and the time allows it.

    `submitted`: gets the id of each submission. Raises NotCompleted or StillOpen.
    """
    end_s = clock_s() + timeout_s
    while True:
        submitted.append((yield from transport.submit(request)))
        end = yield from transport.end(submitted[-1], max(0.0, end_s - clock_s()))
        if isinstance(end, Completed):
            return end
        wait_s = end.retry_after_s if isinstance(end, Rejected) else None
        if wait_s is None or len(submitted) == SUBMISSIONS or clock_s() + wait_s >= end_s:
            raise NotCompleted(end)
        yield Pause(wait_s)
