"""A prediction's server-sent events as Replicate names them: logs, output, error and done, each with an id.

Ids follow from the topics alone, so a client can continue at any gateway behind the last id that it has seen.
"""

import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final, NamedTuple

from agents.gateway.jobs import Job
from agents.gateway.pipeline import PipelineClient
from agents.gateway.predictions import CANCELED, ENDED, SUCCEEDED
from agents.gateway.refusals import Refusal
from agents.gateway.streaming.notes import Note
from agents.gateway.streaming.urls import Named
from agents.gateway.streaming.wire import KEEPALIVE, event

RETRY: Final = b"retry: 1000\n\n"  # ms until a disconnected client reconnects
STOPS: Final = b": this gateway stops\n\n"

Address = Callable[[str], str]  # of the image at a URI


class Position(NamedTuple):
    """The place of an event among those of its request, as its id holds it."""

    part: int
    n: int  # within its part: the offset of a note, the number of an image


NOTES, OUTPUT, END = 0, 1, 2  # parts, in their order
BEFORE: Final = Position(NOTES, -1)
LAST: Final = Position(END, 0)


class StreamEvent(NamedTuple):
    """An event."""

    position: Position
    name: str
    data: str


def position_of(event_id: str) -> Position:
    """Return the position in a `Last-Event-ID`; for "" the one before all events. Raises Refusal if it is invalid."""
    if not event_id:
        return BEFORE
    part, _, n = event_id.partition(".")
    if not all(each.isascii() and each.isdigit() and len(each) < 19 for each in (part, n)):
        raise Refusal("invalid", f"Last-Event-ID must be an event's id: got {event_id!r:.80}", param="Last-Event-ID")
    return Position(int(part), int(n))


def line_of(note: Note, tenant: str, address: Address) -> str:
    """Return a note as a log line, with the address of its draft if that is this tenant's."""
    draft = note.draft_for(tenant)
    return " ".join(part for part in (note.kind, note.words, draft and f"preview={address(draft)}") if part)


def stream_events(job: Job, tenant: str, address: Address) -> Iterator[StreamEvent]:
    """Yield the events of a tenant's job in their order."""
    for note in job.notes:
        yield StreamEvent(Position(NOTES, note.offset), "logs", line_of(note, tenant, address))
    if job.result is None:
        return
    status, how = ENDED[job.result.status], {}
    if status == SUCCEEDED:
        for n, uri in enumerate(job.result.image_uris):
            yield StreamEvent(Position(OUTPUT, n), "output", address(uri))
    elif status == CANCELED:
        how = {"reason": "canceled"}
    else:
        how = {"reason": "error"}
        yield StreamEvent(
            Position(OUTPUT, 0), "error", json.dumps({"detail": f"{job.result.code}: {job.result.reason}"})
        )
    yield StreamEvent(LAST, "done", json.dumps(how))


async def prediction_events(
    pipeline: PipelineClient, named: Named, after: Position, address: Address
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a request behind a position, up to its end.

    Raises Refusal: the address is no longer good, or the gateway stops.
    """
    yield RETRY
    async with contextlib.aclosing(pipeline.news(named.request_id, named.left_s)) as news:
        async for job in news:
            if job is None:
                yield KEEPALIVE
                continue
            for position, name, data in stream_events(job, named.tenant, address):
                if position > after:
                    after = position
                    yield event(name, data, f"{position.part}.{position.n}")


def ended_early(refusal: Refusal) -> bytes:
    """Return the bytes that end a stream before its request has ended; if the gateway stops, its client reconnects."""
    return STOPS if refusal.code == "stopping" else event("error", json.dumps({"detail": str(refusal)}))
