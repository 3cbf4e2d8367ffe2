"""Network operations of transports: each is written once, as coroutines over one of two networks.

`Network` suspends no coroutine, so that `run` drives it without an event loop; `Asyncio` waits on the caller's loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pochade.values import PochadeError

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
LONGEST_S = 1e6  # that a socket waits: Python refuses 25 days, and infinity


class Send(NamedTuple):
    """A request by HTTP."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    content: bytes | None = None
    form: Mapping[str, str | list[str]] | None = None  # fields beside `files`, as multipart/form-data
    files: Mapping[str, bytes] | None = None
    timeout_s: float = 30.0


class Answer(NamedTuple):
    """An answer by HTTP. Status 0: none came, or it was cut; whether the request was received is not known."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""  # with status 0 why


class Network:
    """HTTP by a client of httpx, pauses, and waits for futures. This one blocks its thread."""

    client, a = "Client", ""  # of httpx, and how the names of its methods begin

    def __init__(self, http: Any = None) -> None:
        """`http`: a client of the caller's; else one is made at the first request, as httpx takes long to load."""
        self._http, self._own, self._making = http, None, threading.Lock()

    async def send(self, send: Send) -> Answer:
        """Send a request."""
        try:
            response = await self._got(self._sent(send))
        except Exception as error:
            return _lost(error)
        return Answer(response.status_code, dict(response.headers), response.content)

    async def stream(self, send: Send) -> AsyncGenerator[Answer | str, None]:
        """Send a request; yield the answer, and the lines of one with status 200, then status 0 if cut."""
        response: Any = None
        try:
            response = await self._got(self._sent(send, stream=True))
            is_read = response.status_code != 200
            body = await self._got(getattr(response, f"{self.a}read")()) if is_read else b""
            yield Answer(response.status_code, dict(response.headers), body)
            lines = getattr(response, f"{self.a}iter_lines")()
            while not is_read and (line := await self._got(self._next(lines))) is not None:
                yield line
        except Exception as error:
            yield _lost(error)
        finally:
            if response is not None:
                await self._got(getattr(response, f"{self.a}close")())

    async def close(self) -> None:
        """End the connections, but those of a client of the caller's."""
        if self._own is not None:
            await self._got(getattr(self._own, f"{self.a}close")())

    async def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(min(seconds, threading.TIMEOUT_MAX))

    async def wait(self, future: Future[T], timeout_s: float | None) -> T | None:
        """Return or raise what a future has; None if it has nothing in time."""
        from concurrent.futures import wait

        wait([future], None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))  # it may be infinite
        return future.result() if future.done() else None

    async def within(self, seconds: float, call: Coroutine[Any, Any, T]) -> T:
        """Make a call, for so long at most where it can be ended."""
        del seconds
        return await call

    def _next(self, lines: Any) -> Any:
        return next(lines, None)

    async def _got(self, value: Any) -> Any:
        return value

    def _sent(self, send: Send, *, stream: bool = False) -> Any:
        import httpx

        with self._making:
            if self._http is None:
                self._http = self._own = getattr(httpx, self.client)()
        files = {name: (name, data) for name, data in send.files.items()} if send.files else None
        headers = {name: value.encode() for name, value in send.headers.items()}  # a key may have any letters
        request = self._http.build_request(
            send.method, send.url, headers=headers, content=send.content, data=send.form, files=files,
            timeout=min(send.timeout_s, LONGEST_S),
        )  # fmt: skip
        return self._http.send(request, stream=stream)


class Asyncio(Network):
    """A network for one event loop."""

    client, a = "AsyncClient", "a"

    async def pause(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)

    async def wait(self, future: Future[T], timeout_s: float | None) -> T | None:
        import asyncio

        waited = asyncio.wrap_future(future)
        await asyncio.wait({waited}, timeout=timeout_s)
        return waited.result() if waited.done() else None

    async def within(self, seconds: float, call: Coroutine[Any, Any, T]) -> T:
        import asyncio

        return await asyncio.wait_for(call, seconds)

    def _next(self, lines: Any) -> Any:
        return anext(lines, None)

    async def _got(self, value: Any) -> Any:
        return await value


def future() -> Future[Any]:
    """Return a future that a waiting task leaves alone when the task is cancelled."""
    from concurrent.futures import Future

    made: Future[Any] = Future()
    made.set_running_or_notify_cancel()
    return made


def run(call: Awaitable[T]) -> T:
    """Drive a call over a network that blocks to its end."""
    try:
        next(call.__await__())
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise AssertionError("a call over a network that blocks was suspended")


def iterated(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield the items of a call over a network that blocks; who leaves early closes it."""
    try:
        while True:
            yield run(anext(items))
    except StopAsyncIteration:
        return
    finally:
        run(items.aclose())


def _lost(error: Exception) -> Answer:
    """Return what a broken connection is to a transport; anything else is raised, as a PochadeError if it is HTTP's."""
    import httpx

    broken = (httpx.TimeoutException, httpx.NetworkError, httpx.ProxyError, httpx.RemoteProtocolError)
    if isinstance(error, broken):
        return Answer(0, {}, (str(error) or type(error).__name__).encode())
    if isinstance(error, (httpx.RequestError, httpx.InvalidURL, UnicodeError)):
        raise PochadeError(f"HTTP cannot do this: {error}") from error
    raise error
