"""The roles' port of tracing: spans around the records that they serve. It loads no library; while off it does nothing.

A record's `traceparent` names the span that wrote it. `begin` opens a span for each sampled record, `within` has what
is written because of it name that span, and `end` closes it once all that is acknowledged:

    hop = begin("router", [record])     # None: off, or none is sampled
    with within(hop):
        written = decide(record)
    ...                                 # acknowledged
    end(hop, written)

A trace is sampled where its beginner says so (the flag of `traceparent`), or by its id, so that all roles agree.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from schemas.record import Incoming, Outgoing
from schemas.topics import DLQ, EVENTS
from streams.codec.headers import ERROR as ERROR_FACT
from streams.codec.headers import FACT, FOLLOWING, TRACEPARENT, new_trace
from streams.codec.request_ids import request_id_of
from streams.tracing import conventions as names

MAX_LINKS = 16  # of a span to others of its batch
SAMPLED = b"01"


class Span(Protocol):
    """An open span."""

    traceparent: bytes  # of what is written because of it

    def set(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes."""

    def fail(self, kind: str) -> None:
        """Mark it as failed."""

    def link(self, other: "Span") -> None:
        """Link it to another span of its batch."""

    def end(self, at_ns: int | None = None) -> None:
        """Close it, now or as of a moment; it is sent by and by."""


class Recorder(Protocol):
    """The port of a recorder of spans."""

    prefix: str  # of the deployment's topics

    def samples(self, traceparent: bytes) -> bool:
        """Whether a trace is recorded."""

    def begin(
        self, role: str, name: str, cause: bytes, attributes: Mapping[str, Any], *, kind: str, at_ns: int | None = None
    ) -> Span:
        """Open a span after a cause's `traceparent`: its child where the cause was recorded, else a trace's root.

        `kind`: consumer | server | internal.
        """


recorder: Recorder | None = None  # of this process; None: tracing is off


def use(other: Recorder | None) -> None:
    """Set the recorder of spans; None to record none."""
    global recorder
    recorder = other


class Hop(NamedTuple):
    """The records that a role serves together: the spans of the sampled ones, and what follows from each."""

    spans: Mapping[bytes, Span]  # by the `traceparent` of their cause
    following: Mapping[bytes, bytes]  # `traceparent` of a cause -> that of what is written because of it


_hop: ContextVar[Hop | None] = ContextVar("hop", default=None)


def begin(role: str, records: Sequence[Incoming], group: str = "") -> Hop | None:
    """Open a span for each of these records that is sampled; `group`: of its consumer. None: there is none."""
    if recorder is None:
        return None
    spans, following = dict[bytes, Span](), dict[bytes, bytes]()
    for record in records:
        stated = record.headers.get("traceparent", b"")
        cause = stated
        if TRACEPARENT.fullmatch(stated) is None:  # a trace begins here, whether it is recorded or not
            following[stated] = cause = new_trace()
        if stated not in spans and recorder.samples(cause):
            attributes = _attributes(record, group, len(records), recorder.prefix)
            span = recorder.begin(role, f"{names.PROCESS} {record.topic}", cause, attributes, kind="consumer")
            spans[stated], following[stated] = span, span.traceparent
    if not following:
        return None
    _link([*spans.values()])
    return Hop(spans, following)


def _attributes(record: Incoming, group: str, count: int, prefix: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        names.SYSTEM: names.KAFKA,
        names.OPERATION: names.PROCESS,
        names.OPERATION_TYPE: names.PROCESS,
        names.DESTINATION: f"{prefix}.{record.topic}",
        names.PARTITION: str(record.partition),
        names.OFFSET: record.offset,
        names.REQUEST: request_id_of(record)[:200],
        names.BODY_BYTES: len(record.value or b""),
    }
    if group:
        attributes[names.GROUP] = group
    if count > 1:
        attributes[names.BATCH] = count
    return attributes


def _link(spans: Sequence[Span]) -> None:
    """Link the spans of a batch, so that each leads to those beside it."""
    for span in spans if len(spans) > 1 else ():
        for other in [each for each in spans[: MAX_LINKS + 1] if each is not span][:MAX_LINKS]:
            span.link(other)


@contextlib.contextmanager
def within(hop: Hop | None) -> Iterator[None]:
    """Have records that are stamped in the block follow from the hop's spans."""
    if hop is None:
        yield
        return
    before, following = _hop.set(hop), FOLLOWING.set(hop.following)
    try:
        yield
    finally:
        FOLLOWING.reset(following)
        _hop.reset(before)


def note(
    role: str, records: Sequence[Incoming], name: str, begun_ms: int, ended_ms: int, attributes: Mapping[str, Any]
) -> None:
    """Record work for records of the current hop, such as an engine's call: a child of each one's span."""
    hop = _hop.get()
    if recorder is None or hop is None:
        return
    parents = [hop.spans.get(record.headers.get("traceparent", b"")) for record in records]
    children = [
        recorder.begin(role, name, parent.traceparent, attributes, kind="internal", at_ns=begun_ms * 1_000_000)
        for parent in parents
        if parent is not None
    ]
    _link(children)
    for child in children:
        child.end(ended_ms * 1_000_000)


def end(hop: Hop | None, written: Sequence[Outgoing] = ()) -> None:
    """Close the spans of a hop, with what was written because of their records."""
    if hop is None:
        return
    by_own = {span.traceparent: span for span in hop.spans.values()}
    wrote: dict[bytes, list[str]] = {}
    for record in written:
        own = record.headers.get("traceparent", b"")
        if own not in by_own or record.topic == EVENTS:
            continue
        wrote.setdefault(own, []).append(record.topic)
        facts = {name: record.headers.get(FACT + name) for name in names.FACTS}
        by_own[own].set({names.OURS + name: value.decode() for name, value in facts.items() if value})
        if record.topic == DLQ:
            by_own[own].fail(record.headers.get(f"{ERROR_FACT}class", b"_OTHER").decode())
    for own, span in by_own.items():
        span.set({names.WROTE: wrote.get(own, [])})
        span.end()


@contextlib.contextmanager
def serving(role: str, method: str, traceparent: str) -> Iterator[Span | None]:
    """Around answering an HTTP request: what is written meanwhile follows from it, and from the client's span.

    A client's trace goes on, whether it is recorded here or not.
    """
    stated = traceparent.encode()
    is_stated = TRACEPARENT.fullmatch(stated) is not None
    if recorder is None and not is_stated:
        yield None
        return
    cause = stated if is_stated else new_trace()
    span = None
    if recorder is not None and recorder.samples(cause):
        span = recorder.begin(role, method, cause, {names.METHOD: method}, kind="server")
    following = FOLLOWING.set({b"": span.traceparent if span is not None else cause})
    try:
        yield span
    finally:
        FOLLOWING.reset(following)
        if span is not None:
            span.end()
