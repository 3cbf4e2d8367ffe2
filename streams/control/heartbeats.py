"""The newest heartbeat of each worker, from records of the topic `fleet`."""

from collections.abc import Iterable

from planner.observation.workers import ReceivedHeartbeat
from schemas.errors import InvalidRecord
from schemas.messages import Heartbeat
from schemas.record import Incoming
from streams.codec.avro import decode


def add(heard: dict[str, ReceivedHeartbeat], beat: Heartbeat, seen_ms: int) -> None:
    """Add a heartbeat to the last one of each worker."""
    known = heard.get(beat.worker_id)
    heard[beat.worker_id] = known.then(beat, seen_ms) if known else ReceivedHeartbeat(beat, seen_ms)


def newest_beats(records: Iterable[Incoming]) -> dict[str, ReceivedHeartbeat]:
    """Return the newest heartbeat of each worker that can be read, by its id.

    Raises InvalidRecord: there are records, and none of them can be.
    """
    newest: dict[str, ReceivedHeartbeat] = {}
    failure: InvalidRecord | None = None
    for record in records:
        try:
            if record.value:
                add(newest, decode(record.value, Heartbeat), record.timestamp_ms)
        except InvalidRecord as error:
            failure = error
    if failure is not None and not newest:
        raise failure
    return newest
