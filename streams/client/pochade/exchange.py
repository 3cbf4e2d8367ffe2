"""What a transport asks its shell to do. A transport decides everything in generators, which yield these values and get
the answers sent in: one core for the blocking and the asyncio client, which tests drive without a socket or a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pochade.requests import Request
from pochade.values import Completed, Event, NotCompleted, Rejected

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pochade.gateway import Gateway
    from pochade.kafka import Kafka

T = TypeVar("T")
SUBMISSIONS = 3  # of one `generate`, while its request is rejected for now


@dataclass(frozen=True)
class Send:
    """Send an HTTP request; the answer is an `Answer` or `Lost`. A streamed one is read by `NextLine`."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    form: Mapping[str, str | list[str]] | None = None  # fields beside `files`, as multipart/form-data
    files: Mapping[str, bytes] | None = None
    timeout_s: float = 30.0
    is_streamed: bool = False


@dataclass(frozen=True)
class Answer:
    """An answer by HTTP. Of a streamed one with status 200 the body is left to `NextLine`."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""


@dataclass(frozen=True)
class Lost:
    """No answer: refused, cut, or too late. Whether the request was received is not known."""

    why: str


@dataclass(frozen=True)
class NextLine:
    """Read a line of the streamed answer; the answer is a str, or None once it has ended or was cut."""


@dataclass(frozen=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Await:
    """Wait for a future, for so long at most; the answer is its result, or None in time. What it raises is raised."""

    future: Future[Any]
    timeout_s: float


Effect = Send | NextLine | Pause | Await
Exchange = Generator[Effect, Any, T]
Events = Generator[Effect | Event, Any, None]
Clock = Callable[[], float]


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
