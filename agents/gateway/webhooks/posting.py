"""Posts one webhook to the address that was checked, without redirects, within limits of time and size.

`Connections` also serve images that clients name by their address (`edits/sources.py`).
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

import httpcore

from agents.gateway.webhooks.addresses import Target, WrongAddress, check_address, target_of

GONE: Final = 410  # a receiver's answer that it wants no more (Standard Webhooks)

T = TypeVar("T")
Answer = httpcore.Response
Resolve = Callable[[str, int], Awaitable[list[str]]]
Check = Callable[[str], None]


class NotDelivered(Exception):
    """A failed attempt; the message says why, without the path of its URL."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        """`is_final`: repeating it is useless."""
        super().__init__(why)
        self.is_final = is_final


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, as the system resolves it. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Resolves a host once, checks the addresses, and connects to them: a later DNS answer has no effect."""

    def __init__(self, resolve: Resolve, check: Check, inner: httpcore.AsyncNetworkBackend) -> None:
        self._resolve = resolve
        self._check = check
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first of a host's addresses that answers, if webhooks may be sent to each of them."""
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError("its host has no address") from error
        for address in addresses:
            self._check(address)
        failure: Exception = httpcore.ConnectError("its host has no address")
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class Connections:
    """Calls by HTTP, each over a new, newly checked connection; redirects are not followed, nor is a proxy used."""

    def __init__(
        self,
        internal: Collection[str] = (),
        timeout_s: float = 10,
        *,
        resolve: Resolve = resolve,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        """`internal`: origins that are allowed at any address. `network`: connects to addresses."""
        self._internal = internal
        self._timeout_s = timeout_s
        self._resolve = resolve
        self._network = network or httpcore.AnyIOBackend()

    async def call(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        read: Callable[[Answer], Awaitable[T]],
    ) -> T:
        """Call an address; return what `read` makes of the answer with a status of 2xx.

        Raises NotDelivered: another answer or none, or nothing may be sent there.
        """
        try:
            target = target_of(url, self._internal)
            async with asyncio.timeout(self._timeout_s), self._opened(method, target, headers, body) as answer:
                if 300 <= answer.status < 400:
                    raise NotDelivered(f"{target.origin} answered {answer.status}: redirects are not followed")
                if not 200 <= answer.status < 300:
                    raise NotDelivered(f"{target.origin} answered {answer.status}", is_final=answer.status == GONE)
                return await read(answer)
        except WrongAddress as error:
            raise NotDelivered(str(error), is_final=True) from error
        except TimeoutError:
            raise NotDelivered(f"{target.origin} did not answer within {self._timeout_s:g} s") from None
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
            raise NotDelivered(f"{target.origin} cannot be reached: {_words(error)}") from error

    @contextlib.asynccontextmanager
    async def _opened(
        self, method: str, target: Target, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[Answer]:
        check = _allow if target.origin in self._internal else check_address
        backend = CheckedBackend(self._resolve, check, self._network)
        where = httpcore.URL(
            scheme=target.scheme.encode(), host=target.host.encode(), port=target.port, target=target.path.encode()
        )
        length = {} if body is None else {"content-length": str(len(body))}
        named: list[tuple[bytes | str, bytes | str]] = [*headers.items(), ("host", target.authority), *length.items()]
        limits: dict[str, Any] = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), self._timeout_s)}
        pool = httpcore.AsyncConnectionPool(network_backend=backend)
        async with pool, pool.stream(method, where, headers=named, content=body, extensions=limits) as answer:
            yield answer


class Poster:
    """Posts webhooks."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> None:
        """Post a body; returns once the receiver has answered 2xx. Its answer's body is not read.

        Raises NotDelivered: another answer or none, or webhooks may not be sent there.
        """
        await self._connections.call("POST", url, headers, body, _unread)


async def _unread(_answer: Answer) -> None:
    """The status says all."""


def _allow(_address: str) -> None:
    """An operator has named this origin."""


def _words(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__
