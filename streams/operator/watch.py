"""Turns records of `events` and `results` into the notes that `watch` shows, and knows when all requests have ended."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from schemas.errors import InvalidRecord
from schemas.messages import Event
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams.codec.avro import decode, decode_result

ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One event or the end of a request, as `watch` shows it."""

    at_ms: int
    request_id: str
    kind: str  # an event's kind, or `ended`
    by: str
    detail: dict[str, Any]

    def words(self) -> str:
        """Return the detail as text, such as `level=heavy confidence=0.31`."""
        return " ".join(f"{name}={value}" for name, value in self.detail.items() if value not in (None, ""))


def note_of(record: Incoming) -> Note:
    """Return the note in a record of `events` or `results`.

    Raises InvalidRecord: the record is neither an Event nor a Result.
    """
    if record.topic == RESULTS:
        result = decode_result(record.value)
        detail = {
            "status": str(result.status), "level": result.level, "latency_ms": result.latency_ms,
            "reason": result.reason, "image_uri": result.image_uri,
        }  # fmt: skip
        return Note(at_ms=result.ended_ms, request_id=result.request_id, kind=ENDED, by="ledger", detail=detail)
    event = decode(record.value, Event)
    try:
        detail = json.loads(event.detail)
    except ValueError:
        detail = {"detail": event.detail}
    if not isinstance(detail, dict):
        detail = {"detail": detail}
    return Note(at_ms=event.at_ms, request_id=event.request_id, kind=event.kind, by=event.by, detail=detail)


class Watch:
    """Selects the notes of the wanted requests, and knows when these have ended; without ids it selects all notes."""

    def __init__(self, wanted: Collection[str]) -> None:
        self._open = set(wanted)
        self._wanted = frozenset(wanted)
        self.unreadable = 0

    def take(self, record: Incoming) -> Note | None:
        """Return the note of a record if its request is wanted, else None; unreadable records are counted."""
        if self._wanted and (record.key or b"").decode(errors="replace") not in self._wanted:
            return None
        try:
            note = note_of(record)
        except InvalidRecord:
            self.unreadable += 1
            return None
        if note.kind == ENDED:
            self._open.discard(note.request_id)
        return note

    @property
    def waits_for(self) -> list[str]:
        """The wanted requests that have not ended, sorted."""
        return sorted(self._open)

    @property
    def is_finished(self) -> bool:
        """Whether all wanted requests have ended; False without ids."""
        return bool(self._wanted) and not self._open
