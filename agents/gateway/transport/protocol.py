"""uvicorn's HTTP protocol with a time limit for clients that send no request or read no answer."""

import asyncio
import socket
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from streams import metrics


class TimedProtocol(H11Protocol):
    """Cuts a connection whose request has no whole head, whose answer is not read, or whose body goes on for longer
    after the answer, within `timeout_s`.

    uvicorn itself ends idle connections between two requests, and no others. Each part of an answer is sent at once:
    asyncio sees to that for sockets that it opens itself, and a body would wait 40 ms for its head's acknowledgement.
    """

    timeout_s: ClassVar[float] = 15.0
    _head: asyncio.TimerHandle | None = None
    _answer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = self._timer("slow-head")

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_half = self._is_unread() or (self.conn.their_state is h11.IDLE and bool(self.conn.trailing_data[0]))
        if not is_half and self._head is not None:
            self._head.cancel()
            self._head = None
        elif is_half and self._head is None:
            self._head = self._timer("slow-head")

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_unread() and self._head is None:
            self._head = self._timer("slow-body")

    def _is_unread(self) -> bool:
        """Whether the request was answered before its body was whole."""
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def pause_writing(self) -> None:
        super().pause_writing()
        self._answer = self._timer("slow-reader")

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head, self._answer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _timer(self, why: str) -> asyncio.TimerHandle:
        return self.loop.call_later(self.timeout_s, self._cut, why)

    def _cut(self, why: str) -> None:
        metrics.GATEWAY_LEFT.labels(why).inc()
        self.transport.abort()


def timed(timeout_s: float) -> type[TimedProtocol]:
    """Return the protocol with this limit."""
    return type("TimedProtocol", (TimedProtocol,), {"timeout_s": timeout_s})
