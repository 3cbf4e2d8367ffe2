"""A client's values: ends of requests, their events, and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class PochadeError(Exception):
    """The root of all that this package raises."""


class StillOpen(PochadeError, TimeoutError):
    """A request has not ended within the time that was waited. It goes on: `client.handle(request_id)` waits again."""

    def __init__(self, request_id: str, waited_s: float) -> None:
        super().__init__(
            f"request {request_id} has no result after {waited_s:g} s; it goes on and may be awaited again"
        )
        self.request_id = request_id


class Unavailable(PochadeError):
    """The deployment could not be reached, or could not serve now, for as long as the call was repeated."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        """`retry_after_s`: when to ask again, if the deployment says so."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Refused(PochadeError):
    """A call that is refused, and would be again: a wrong parameter, a key that does not hold, too large a request."""

    def __init__(self, status: int, message: str, code: str = "", param: str | None = None) -> None:
        """`status`: of HTTP. `code`: why in one word. `param`: the parameter that is wrong."""
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


class NotFound(Refused):
    """No such request is remembered: there is none of this id, it is another tenant's, or it ended long ago."""


class Unsupported(PochadeError):
    """The transport cannot do this; the message names the one that can."""


class NotCompleted(PochadeError):
    """A request that `generate` waited for ended without an image; `end` says how."""

    def __init__(self, end: Cancelled | Rejected | Expired | Failed) -> None:
        super().__init__(f"request {end.request_id} ended as {type(end).__name__.upper()}: {end.reason}")
        self.end = end


@dataclass(frozen=True)
class Image:
    """An image of a completed request: `client.read(image)` returns its bytes."""

    request_id: str
    index: int  # among the request's images
    uri: str = field(compare=False)  # an address of the gateway, good for a while; over Kafka where it is stored


@dataclass(frozen=True)
class Completed:
    """A request that has its images."""

    request_id: str
    images: tuple[Image, ...]
    level: str | None = None  # that generated them
    escalated: bool = False  # a draft of a cheaper level was rejected before
    confidence: float | None = None  # of the kept image; None: it was not scored
    overridden: tuple[str, ...] = ()  # options that were changed, each with what was done instead
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)  # all that the result says


@dataclass(frozen=True)
class _WithoutImage:
    request_id: str
    reason: str  # a sentence
    code: str = ""  # the reason in one word, for machines
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)  # all that the result says


class Cancelled(_WithoutImage):
    """A request that was cancelled before it had an image."""


@dataclass(frozen=True)
class Rejected(_WithoutImage):
    """A request that the deployment does not serve: not as it is (`param`), or not now (`retry_after_s`)."""

    param: str = ""  # the option that it was rejected for; "": none, or several
    retry_after_s: float | None = None  # when it may be worth sending it again; None: never


class Expired(_WithoutImage):
    """A request whose deadline passed, or could not have been met."""


class Failed(_WithoutImage):
    """A request that could not be read, or whose image could not be generated."""


End = Completed | Cancelled | Rejected | Expired | Failed


@dataclass(frozen=True)
class Event:
    """An event of a request; `kind` is queued, started, escalated, rerouted, preview or ended.

    A newer deployment may have other kinds. All but the last are best effort.
    """

    kind: str
    details: Mapping[str, Any] = field(default_factory=dict)  # level, stage, step, steps, preview (an address), place
    position: str = ""  # `handle.events(after=position)` goes on behind it; "": it has none
    end: End | None = None  # of the last event


@dataclass(frozen=True)
class Explanation:
    """Why a request ended as it did, or what it waits for."""

    request_id: str
    why: str  # a sentence
    path: Sequence[Mapping[str, Any]] = ()  # its stages: level, times, confidence against threshold
    asked: str | None = None  # what it stated besides its prompt, in words; None: not known


ENDS: Mapping[str, type[Cancelled | Expired | Failed]] = {"CANCELLED": Cancelled, "EXPIRED": Expired, "FAILED": Failed}


def end_in(status: str, result: Mapping[str, Any], request_id: str, images: Sequence[str]) -> End:
    """Return the end that a result states. `images`: their URIs. Raises PochadeError for a status that is unknown."""
    if status == "COMPLETED":
        return Completed(
            request_id, tuple(Image(request_id, n, uri) for n, uri in enumerate(images)), result.get("level"),
            bool(result.get("escalated")), result.get("confidence"), tuple(result.get("overridden") or ()), result,
        )  # fmt: skip
    fields = (request_id, result.get("reason") or "no reason was given", result.get("code") or "", result)
    if status == "REJECTED":
        after_ms = result.get("retry_after_ms")
        return Rejected(*fields, result.get("param") or "", None if after_ms is None else after_ms / 1000)
    if status in ENDS:
        return ENDS[status](*fields)
    raise PochadeError(
        f"request {request_id} ended as {status!r:.40}, which this release of pochade-client cannot read"
    )
