"""Reads the dlq, and what has become of the requests whose letters lie there."""

from schemas.topics import DLQ, RESULTS
from streams.codec.avro import decode_result
from streams.kafka import snapshot
from streams.kafka.consumer import now_ms
from streams.operator.dead_letters import Letter, base_id, letter_of
from streams.settings import Settings


def letters(settings: Settings, since_ms: int, error: str | None = None) -> list[Letter]:
    """The letters of the last `since_ms` milliseconds, of one error class or all, the oldest first."""
    found = [letter_of(record) for record in snapshot.past(settings, [DLQ], since_ms=max(1, now_ms() - since_ms))]
    found.sort(key=lambda letter: letter.record.timestamp_ms)
    return [letter for letter in found if error is None or letter.error == error]


def ended(settings: Settings, bases: set[str]) -> dict[str, str]:
    """The ids of these requests, and of their redrives, that have a result -> its status."""

    def is_theirs(key: bytes | None) -> bool:
        return base_id((key or b"").decode(errors="replace")) in bases

    records = snapshot.past(settings, [RESULTS], keep=lambda record: is_theirs(record.key))
    return {(r.key or b"").decode(errors="replace"): str(decode_result(r.value).status) for r in records}
