"""The newest requests of all tenants: their records' positions and content."""

import bisect
import threading
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from agents.gateway.streaming.notes import Note, begun_in, noted
from planner.observation.results import says_nothing_of_the_service
from schemas.messages import ClassifiedRequest, GenerateRequest, Result, Status

MAX_PROMPT: Final = 2000  # characters that are kept of one
MAX_PLACES: Final = 24  # of one request; the oldest stay
NEWEST: Final = (2**62, "")  # cursor of the first page


class Place(NamedTuple):
    """The position of a record."""

    topic: str  # without the prefix
    partition: int
    offset: int
    at_ms: int  # by the broker's clock


class Judged(NamedTuple):
    """The classifier's judgement."""

    hardness: float
    classes: dict[str, str]
    classifier: str


@dataclass(slots=True)
class TrackedRequest:
    """A request as far as the topics are read. Callers get copies; all values are immutable."""

    request_id: str
    first_ms: int  # of its first record that was read, by the broker's clock
    request: GenerateRequest | None = None  # None if its prompt was not read or is invalid
    judged: Judged | None = None
    notes: tuple[Note, ...] = ()  # in their order; best effort
    result: Result | None = None  # None: it has not ended
    places: tuple[Place, ...] = field(default=())

    @property
    def cursor(self) -> tuple[int, str]:
        """Its place among all, by time."""
        return self.first_ms, self.request_id

    @property
    def status(self) -> str:
        """The status that it ended with; else running or waiting."""
        if self.result is not None:
            return str(self.result.status)
        return "waiting" if begun_in(self.notes) is None else "running"

    @property
    def is_clients(self) -> bool:
        """Whether it ended for a fault of its own; a cancelled one did not."""
        result = self.result
        return (
            result is not None
            and result.status is not Status.CANCELLED
            and says_nothing_of_the_service(result.status, result.code)
        )

    @property
    def level(self) -> str:
        """The level at which it ended or is; "" if none yet."""
        if self.result is not None:
            return self.result.level or ""
        return next((note.level for note in reversed(self.notes) if note.level), "")

    @property
    def tenant(self) -> str:
        """Its tenant; "" if unknown."""
        return self.request.tenant if self.request else self.result.tenant if self.result else ""

    @property
    def prompt(self) -> str:
        """Its prompt; "" if unknown."""
        return self.request.prompt if self.request else self.result.prompt if self.result else ""

    @property
    def prompts(self) -> tuple[str, ...]:
        """All that it says in words, where its record was read; () if unknown."""
        request = self.request
        return tuple(filter(None, (request.prompt, request.options.negative_prompt))) if request else ()

    @property
    def drafts(self) -> tuple[str, ...]:
        """URIs of rejected images and of previews."""
        return tuple(note.draft for note in self.notes if note.draft and note.draft_for(self.tenant or note.tenant))


class RequestLog:
    """The newest requests, up to a number. One thread writes, any reads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._tracked: dict[str, TrackedRequest] = {}
        self._order: list[tuple[int, str]] = []
        self._open = 0
        self.revision = 0  # rises with each change

    def __len__(self) -> int:
        return len(self._tracked)

    @property
    def open(self) -> int:
        """Requests without a result."""
        return self._open

    def on_request(self, request: GenerateRequest, place: Place) -> None:
        """Take in a prompt, as it was sent or read."""

        def update(tracked: TrackedRequest) -> None:
            if tracked.request is None:
                tracked.request = replace(request, prompt=request.prompt[:MAX_PROMPT])

        self._take(request.request_id, place, update)

    def on_classified(self, classified: ClassifiedRequest, place: Place) -> None:
        """Take in what the classifier said."""

        def update(tracked: TrackedRequest) -> None:
            tracked.judged = Judged(classified.hardness, classified.classes, classified.classifier)
            if tracked.request is None:
                request = classified.request
                tracked.request = replace(request, prompt=request.prompt[:MAX_PROMPT])

        self._take(classified.request.request_id, place, update)

    def on_note(self, request_id: str, note: Note, place: Place) -> None:
        """Take in an event on its way."""

        def update(tracked: TrackedRequest) -> None:
            tracked.notes = noted(tracked.notes, note)

        self._take(request_id, place, update, keeps_place=False)

    def on_place(self, request_id: str, place: Place) -> None:
        """Take in the position of a record of it."""
        self._take(request_id, place, lambda _tracked: None)

    def on_result(self, result: Result, place: Place) -> bool:
        """Take in its result; return whether it is the first."""
        is_first = False

        def update(tracked: TrackedRequest) -> None:
            nonlocal is_first
            if tracked.result is None:
                is_first = True
                self._open -= 1
                tracked.result = replace(result, prompt=result.prompt[:MAX_PROMPT] if tracked.request is None else "")

        self._take(result.request_id, place, update)
        return is_first

    def _take(
        self, request_id: str, place: Place, update: Callable[[TrackedRequest], None], *, keeps_place: bool = True
    ) -> None:
        with self._lock:
            tracked = self._tracked.get(request_id)
            if tracked is None:
                tracked = self._tracked[request_id] = TrackedRequest(request_id, place.at_ms)
                bisect.insort(self._order, tracked.cursor)
                self._open += 1
            update(tracked)
            if (
                keeps_place
                and len(tracked.places) < MAX_PLACES
                and place[:3] not in [each[:3] for each in tracked.places]
            ):
                tracked.places = (*tracked.places, place)
            if len(self._order) > self._most:
                _, oldest = self._order.pop(0)
                self._open -= self._tracked.pop(oldest).result is None
            self.revision += 1

    def get(self, request_id: str) -> TrackedRequest | None:
        """Return a request; None if it is unknown."""
        with self._lock:
            tracked = self._tracked.get(request_id)
            return None if tracked is None else copy(tracked)

    def unended(self) -> list[TrackedRequest]:
        """Return the requests without a result, in the order of their first records."""
        with self._lock:
            return [copy(each) for each in self._tracked.values() if each.result is None]

    def newest(self, before: tuple[int, str] = NEWEST, most: int | None = None) -> Iterator[TrackedRequest]:
        """Yield requests before a cursor, the newest first. `most`: max number; None for all."""
        with self._lock:
            end = bisect.bisect_left(self._order, before)
            begin = 0 if most is None else max(0, end - most)
            found = [self._tracked[request_id] for _, request_id in reversed(self._order[begin:end])]
        yield from found

    def page(
        self, size: int, before: tuple[int, str], wanted: Callable[[TrackedRequest], bool]
    ) -> tuple[list[TrackedRequest], bool]:
        """Return up to `size` wanted requests before a cursor, the newest first, and whether there are more."""
        found: list[TrackedRequest] = []
        for tracked in self.newest(before):
            if wanted(tracked):
                if len(found) == size:
                    return found, True
                found.append(copy(tracked))
        return found, False
