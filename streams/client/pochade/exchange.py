"""What a transport asks its shell to do. A transport decides everything in generators, which yield these values and get
the answers sent in: one core for the blocking and the asyncio client, which tests drive without a socket or a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pochade.values import Event

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")


class Send(NamedTuple):
    """Send an HTTP request; the answer is an `Answer` or `Lost`. A streamed one is read by `NextLine`."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    content: bytes | None = None
    form: Mapping[str, str | list[str]] | None = None  # fields beside `files`, as multipart/form-data
    files: Mapping[str, bytes] | None = None
    timeout_s: float = 30.0
    is_streamed: bool = False


class Answer(NamedTuple):
    """An answer by HTTP. Of a streamed one with status 200 the body is left to `NextLine`."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""


class Lost(NamedTuple):
    """No answer: refused, cut, or too late. Whether the request was received is not known."""

    why: str


class NextLine(NamedTuple):
    """Read a line of the streamed answer; the answer is a str, or None once it has ended or was cut."""


class Pause(NamedTuple):
    """Wait."""

    seconds: float


class Await(NamedTuple):
    """Wait for a future, for so long at most; the answer is its result, or None in time. What it raises is raised."""

    future: Future[Any]
    timeout_s: float


Effect = Send | NextLine | Pause | Await
Exchange = Generator[Effect, Any, T]
Events = Generator[Effect | Event, Any, None]
Clock = Callable[[], float]
