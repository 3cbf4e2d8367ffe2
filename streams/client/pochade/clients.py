"""The two shells of a transport: an asyncio client, and a blocking one made of it."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from pochade.gateway import Gateway
from pochade.network import Asyncio, Network, iterated, run
from pochade.requests import Options, Request, request_for
from pochade.values import Completed, End, Event, Explanation, Image, NotCompleted, Rejected

if TYPE_CHECKING:
    import httpx
    from typing_extensions import Unpack

    from pochade.kafka import Kafka

P = ParamSpec("P")
T = TypeVar("T")
LOCAL = "http://127.0.0.1:8760"
WAIT_S = 300.0  # for the end of a request
CANCEL_S = 5.0  # that an interrupted `generate` waits for its cancellation
REASON = "cancelled by its client"
SUBMISSIONS = 3  # of one `generate`, while its request is rejected for now


def _blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def _iterating(
    method: Callable[Concatenate[Any, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return iterated(method(self, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


class AsyncHandle:
    """A request that was submitted: by this process, or by another that knew its id."""

    def __init__(self, to: Gateway | Kafka, request_id: str) -> None:
        self._to, self.request_id = to, request_id

    async def result(self, timeout_s: float = WAIT_S) -> End:
        """Wait for the end of the request and return it. Raises StillOpen: it goes on, and may be awaited again."""
        return await self._to.end(self.request_id, timeout_s)

    def events(self, after: str = "") -> AsyncGenerator[Event, None]:
        """Yield what happens to the request, from its beginning or behind a position, up to its end."""
        return self._to.events(self.request_id, after)

    async def cancel(self, reason: str = REASON) -> None:
        """End the request as Cancelled unless it has ended; `result` says which came first."""
        await self._to.cancel(self.request_id, reason)

    async def explain(self) -> Explanation:
        """Return why the request ended as it did, or what it waits for."""
        return await self._to.explain(self.request_id)


class Handle:
    """As `AsyncHandle`, but its methods block."""

    def __init__(self, to: Gateway | Kafka, request_id: str) -> None:
        self._to, self.request_id = to, request_id

    result = _blocking(AsyncHandle.result)
    events = _iterating(AsyncHandle.events)
    cancel = _blocking(AsyncHandle.cancel)
    explain = _blocking(AsyncHandle.explain)


class AsyncClient:
    """A client of a deployment for one event loop. A context manager: closing it ends its connections."""

    def __init__(
        self, to: str | Gateway | Kafka = LOCAL, *, api_key: str = "", http: httpx.AsyncClient | None = None
    ) -> None:
        """`to`: the URL of a gateway, or a transport. `http`: a client of your own, which you close yourself."""
        self._network = Asyncio(http)
        self._to = _bound(to, api_key, self._network)

    async def generate(self, prompt: str, *, timeout_s: float = WAIT_S, **options: Unpack[Options]) -> Completed:
        """Submit a request, wait for its images and return them; Ctrl-C, or the end of this task, cancels it.

        Raises:
            NotCompleted: it ended otherwise; `end` says how.
            StillOpen: it has not ended within `timeout_s`, and goes on.
        """
        return await generated(self._to, self._network, request_for(prompt, options), timeout_s)

    async def submit(self, prompt: str, **options: Unpack[Options]) -> AsyncHandle:
        """Submit a request; it is safe with the deployment when this returns."""
        return self.handle(await self._to.submit(request_for(prompt, options)))

    def handle(self, request_id: str) -> AsyncHandle:
        """Return the handle of a request of any process; nothing is contacted."""
        return AsyncHandle(self._to, request_id)

    async def read(self, image: Image) -> bytes:
        """Return an image's bytes."""
        return await self._to.read(image)

    def ends(
        self, since_s: float = 600.0, *, is_following: bool = False, request_id: str = ""
    ) -> AsyncGenerator[End, None]:
        """Yield how requests, or that of an id, ended in the last `since_s` seconds, and as they end if following.

        Over Kafka alone.
        """
        return self._to.ends(since_s, is_following, request_id)

    async def aclose(self) -> None:
        """End the connections."""
        self._to.close()
        await self._network.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Client:
    """As `AsyncClient`, but its methods block, and any thread may call them."""

    def __init__(
        self, to: str | Gateway | Kafka = LOCAL, *, api_key: str = "", http: httpx.Client | None = None
    ) -> None:
        """`to`: the URL of a gateway, or a transport. `http`: a client of your own, which you close yourself."""
        self._network = Network(http)
        self._to = _bound(to, api_key, self._network)

    generate = _blocking(AsyncClient.generate)
    read = _blocking(AsyncClient.read)
    ends = _iterating(AsyncClient.ends)
    close = _blocking(AsyncClient.aclose)

    def submit(self, prompt: str, **options: Unpack[Options]) -> Handle:
        """Submit a request; it is safe with the deployment when this returns."""
        return self.handle(run(self._to.submit(request_for(prompt, options))))

    def handle(self, request_id: str) -> Handle:
        """Return the handle of a request of any process; nothing is contacted."""
        return Handle(self._to, request_id)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _bound(to: str | Gateway | Kafka, api_key: str, network: Network) -> Gateway | Kafka:
    return (Gateway(to, api_key=api_key) if isinstance(to, str) else to).over(network)


async def generated(
    to: Gateway | Kafka,
    network: Network,
    request: Request,
    timeout_s: float,
    clock_s: Callable[[], float] = time.monotonic,
) -> Completed:
    """Submit a request and wait for its images, again where it is rejected for now and the time allows it.

    An interrupt cancels the request. Raises NotCompleted or StillOpen.
    """
    end_s, submissions, request_id = clock_s() + timeout_s, 0, ""
    try:
        while True:
            request_id = await to.submit(request)
            submissions += 1
            end = await to.end(request_id, max(0.0, end_s - clock_s()))
            if isinstance(end, Completed):
                return end
            wait_s = end.retry_after_s if isinstance(end, Rejected) else None
            if wait_s is None or submissions == SUBMISSIONS or clock_s() + wait_s >= end_s:
                raise NotCompleted(end)
            await network.pause(wait_s)
    except (Exception, GeneratorExit):
        raise
    except BaseException:  # Ctrl-C, or the end of the task
        if request_id:
            with contextlib.suppress(Exception):
                await network.within(CANCEL_S, to.cancel(request_id, REASON))
        raise
