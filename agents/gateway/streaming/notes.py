"""The records of `events` about one request, in the order of its log: they all lie on one partition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.catalog.entries import variant_of
from planner.observation.lost import Begun
from schemas.messages import EventKind
from schemas.record import Incoming
from schemas.wire_names import field_name
from streams.operator.watch import note_of

DETAILS: Final = ("level", "stage", "step", "steps", "from", "to")  # details that clients see; workers' names are none
DRAFT: Final = "preview"  # the detail that names an image: the one that was rejected, or a preview of a step
MAX_NOTES: Final = 32  # of one request; beyond it the second oldest is dropped: the oldest has the start


@dataclass(frozen=True, slots=True)
class Note:
    """An event on a request's way."""

    offset: int  # of its record: the same at every gateway
    kind: str
    at_ms: int
    words: str  # such as `level=light stage=0 steps=4`
    draft: str = ""  # URI of the image that was rejected, or of a preview; "": neither
    tenant: str = ""  # whose draft it is
    level: str = ""  # that began, or that the request waits for now
    worker: str = ""  # that began; not shown to clients
    skipped: int = 0  # of the level's steps, as it begins with a draft or a stored latent

    def draft_for(self, tenant: str) -> str:
        """Return the URI of the draft; "" if it is another tenant's, as two may have used one id."""
        return self.draft if self.tenant == tenant else ""


def note_in(record: Incoming) -> tuple[str, Note]:
    """Return the request that a record of `events` is about, and its note. Raises InvalidRecord."""
    event = note_of(record)
    words = " ".join(f"{name}={event.detail[name]!s:.80}" for name in DETAILS if name in event.detail)
    draft = _text(event.detail, DRAFT) if event.kind in (EventKind.ESCALATED, EventKind.PREVIEW) else ""
    skipped = [event.detail.get(name) for name in (field_name("refine_from_step"), "reuse_step")]
    return event.request_id, Note(
        offset=record.offset, kind=event.kind, at_ms=event.at_ms, words=words, draft=draft,
        tenant=_text(event.detail, "tenant"), level=_text(event.detail, "to") or _text(event.detail, "level"),
        worker=_text(event.detail, "worker"),
        skipped=next((steps for steps in skipped if isinstance(steps, int) and steps > 0), 0),
    )  # fmt: skip


def _text(detail: Mapping[str, Any], name: str) -> str:
    value = detail.get(name)
    return value if isinstance(value, str) else ""


def begun_in(notes: Sequence[Note]) -> Begun | None:
    """Return the worker that has begun a request with these notes; None: it waits for one."""
    last = next((note for note in reversed(notes) if note.kind != EventKind.PREVIEW), None)
    if last is None or last.kind != EventKind.STARTED:
        return None
    return Begun(last.worker, variant_of(last.level), last.at_ms)


def noted(notes: tuple[Note, ...], note: Note) -> tuple[Note, ...]:
    """Return a request's notes with one more; unchanged if it has this note."""
    if notes and note.offset <= notes[-1].offset:
        return notes
    return (*notes[:1], *(*notes[1:], note)[-(MAX_NOTES - 1) :])
