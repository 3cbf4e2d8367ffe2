"""Sorts the records of `prompts`: each is the first of its request, or repeats one.

An id names one request, whose first record is served. A repetition gets nothing new, whatever it holds. A producer may
not expect that, so that a repetition with other content is named. This is the only place that compares contents.
"""

from collections.abc import Iterable
from typing import NamedTuple

from schemas.record import Incoming
from schemas.topics import PROMPTS_BATCH
from streams.codec.headers import REQUEST_ID


class First(NamedTuple):
    """The first record of a request, by the broker's clock."""

    at_ms: int
    topic: str
    partition: int
    offset: int
    content: int  # hash of its value, of this process alone
    is_moved: bool  # by the classifier to `prompts.batch`, so that the producer's own record lies on `prompts`

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}@{self.offset}"


class Accepted:
    """Takes in records of `prompts` and `prompts.batch` in any order, by the id of their request."""

    def __init__(self, asked: Iterable[str] = ()) -> None:
        """`asked`: ids that a broker acknowledged, whether or not their records are still there."""
        self.ids: dict[str, None] = dict.fromkeys(asked)  # of requests, in the order of reading
        self.records = 0
        self._first: dict[str, First] = {}
        self._repeated = 0  # records beyond the first of a request
        self._differing: set[str] = set()

    def add(self, request_id: str, record: Incoming) -> None:
        """Add a record; one that was moved, and lies on `prompts` too, counts once."""
        is_moved = record.topic == PROMPTS_BATCH and REQUEST_ID in record.headers
        place = record.topic, record.partition, record.offset
        found = First(record.timestamp_ms, *place, hash(record.value), is_moved)
        known = self._first.get(request_id)
        if known is None:
            self.records += 1
            self.ids.setdefault(request_id)
            self._first[request_id] = found
        elif known.is_moved != found.is_moved:
            self._first[request_id] = known if found.is_moved else found
        else:
            self.records += 1
            self._repeated += 1
            self._first[request_id] = min(known, found)
            if known.content != found.content:
                self._differing.add(request_id)

    def repetitions(self, ended_before: Iterable[str]) -> int:
        """Return how many records repeat a request. `ended_before`: requests that had ended when all of these came."""
        return self._repeated + sum(request_id in self._first for request_id in ended_before)

    def differing(self) -> tuple[str, ...]:
        """Return the ids under which records with different contents lie, with the place of the one that is served."""
        return tuple(f"{request_id} at {self._first[request_id]}" for request_id in sorted(self._differing))

    def place(self, request_id: str) -> str:
        """Return where the first record of a request lies; "": none was read."""
        return str(self._first.get(request_id, ""))
