"""The console's whole state, written record by record, read by the screens."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from agents.console.view.happenings import Happening, Happenings
from agents.console.view.plans import PlanHistory
from agents.console.view.requests import Place, RequestLog, TrackedRequest
from agents.console.view.traffic import TrafficCounts
from agents.gateway.streaming.notes import note_in
from agents.runtime.views import FleetView
from planner.catalog.model import Catalog
from planner.observation.observation import PROMPTS as HARDNESSES
from planner.observation.results import says_nothing_of_the_service
from planner.observation.workers import standing_of
from schemas.errors import InvalidRecord, InvalidRequest, UnknownSchema
from schemas.messages import ClassifiedRequest, EventKind, OperatorAction, Result, Status
from schemas.record import Incoming
from schemas.topics import (
    CLASSIFIED,
    EVENTS,
    IMAGES,
    OUTCOMES,
    PROMPTS,
    PROMPTS_BATCH,
    RESULTS,
)
from streams.codec.avro import decode, decode_result
from streams.codec.requests import decode_request
from streams.operator.dead_letters import DeadLetter, dead_letter_of

TOPICS: Final = (PROMPTS, PROMPTS_BATCH, CLASSIFIED, IMAGES, OUTCOMES, EVENTS, RESULTS)
MAX_LETTERS: Final = 1000
MAX_ACTIONS: Final = 500
AS_EXPECTED: Final = frozenset({Status.COMPLETED})


class View:
    """The state read from the topics. One thread a follower hands over records, any reads."""

    def __init__(
        self, catalog: Catalog, plans: PlanHistory, fleet: FleetView, slo_ms: float, max_requests: int
    ) -> None:
        """`slo_ms`: max latency of requests without a deadline to be in time; 0 for no SLO."""
        self.catalog, self.plans, self.fleet = catalog, plans, fleet
        self.slo_ms = slo_ms
        self.requests = RequestLog(max_requests)
        self.traffic = TrafficCounts()
        self.happenings = Happenings()
        self.hardness: deque[tuple[float, dict[str, str]]] = deque(maxlen=HARDNESSES)
        self._lock = threading.Lock()
        self._letters: OrderedDict[str, DeadLetter] = OrderedDict()  # by position
        self._actions: OrderedDict[str, OperatorAction] = OrderedDict()  # by id, the newest record of each
        self._states: dict[str, str] = {}  # worker -> state of its last event

    def on_record(self, record: Incoming) -> None:
        """Take in a record of TOPICS."""
        place = Place(record.topic, record.partition, record.offset, record.timestamp_ms)
        if record.topic in (PROMPTS, PROMPTS_BATCH):
            self.traffic.on_arrival(record.timestamp_ms)
            try:
                request = decode_request(record)
            except UnknownSchema:
                raise
            except (InvalidRecord, InvalidRequest):
                return  # its result says so
            self.requests.on_request(request, place)
        elif record.topic == CLASSIFIED:
            classified = decode(record.value, ClassifiedRequest)
            self.hardness.append((classified.hardness, classified.classes))
            self.requests.on_classified(classified, place)
        elif record.topic == EVENTS:
            request_id, note = note_in(record)
            self.requests.on_note(request_id, note, place)
            if note.kind in (EventKind.ESCALATED, EventKind.REROUTED):
                self._happens(note.at_ms, note.kind, f"{request_id:.40} {note.kind} to {note.level}", request_id)
        elif record.topic == RESULTS:
            self._on_result(decode_result(record.value), place)
        elif record.key:
            self.requests.on_place(record.key.decode(errors="replace"), place)

    def _on_result(self, result: Result, place: Place) -> None:
        if not self.requests.on_result(result, place):
            return
        seen = self.requests.get(result.request_id)
        deadline_ms = seen.request.deadline_ms if seen and seen.request else None
        begun_ms = result.created_ms or place.at_ms
        plan = self.plans.with_version(result.plan_version or 0)
        self.traffic.on_end(
            result, place.at_ms, is_in_time=is_in_time(result, deadline_ms, self.slo_ms),
            is_switched=self.plans.switches(begun_ms, result.ended_ms) > 0, strategy=plan.strategy if plan else "",
        )  # fmt: skip
        own_fault = result.status is not Status.CANCELLED and says_nothing_of_the_service(result.status, result.code)
        if result.status not in AS_EXPECTED and not own_fault:  # the lists of requests and dead letters show those
            text = f"{result.request_id:.40} {str(result.status).lower()}: {result.code or result.reason:.120}"
            self._happens(place.at_ms, "ended", text, result.request_id, is_bad=result.status is Status.FAILED)

    def _happens(self, at_ms: int, kind: str, text: str, request_id: str, *, is_bad: bool = False) -> None:
        self.happenings.add(Happening(at_ms, kind, text, f"/requests/{quote(request_id, safe='')}", is_bad))

    def on_letter(self, record: Incoming) -> None:
        """Take in a record of the dlq."""
        letter = dead_letter_of(record)
        with self._lock:
            self._letters[letter.position] = letter
            while len(self._letters) > MAX_LETTERS:
                self._letters.popitem(last=False)
        if letter.is_clients:
            return
        text = f"{letter.error:.60} at {letter.role:.40}, from {letter.topic:.60}"
        self.happenings.add(Happening(record.timestamp_ms, "dead-letter", text, "/dead-letters", is_bad=True))

    def on_action(self, record: Incoming, notify: Callable[[OperatorAction], None] = lambda _action: None) -> None:
        """Take in a record of an operator's action, and call `notify` with it."""
        action = decode(record.value, OperatorAction)
        notify(action)
        with self._lock:
            self._actions[action.action_id] = action
            while len(self._actions) > MAX_ACTIONS:
                self._actions.popitem(last=False)
        if action.outcome:
            text = f"{action.name or action.by}: {action.action} {action.subject:.60}: {action.outcome:.120}"
            self.happenings.add(Happening(action.at_ms, "action", text, "/checks#actions"))

    def letters(self) -> list[DeadLetter]:
        """Return the recent dead letters, the newest first."""
        with self._lock:
            return sorted(self._letters.values(), key=lambda each: -each.record.timestamp_ms)

    def actions(self) -> list[OperatorAction]:
        """Return operators' recent actions, the newest first."""
        with self._lock:
            return sorted(self._actions.values(), key=lambda each: -each.at_ms)

    def last_action(self, action: str) -> OperatorAction | None:
        """Return the last ended action of a kind; None if there is none."""
        return next((each for each in self.actions() if each.action == action and each.outcome), None)

    def note_workers(self, now_ms: int, silent_ms: int) -> None:
        """Add an event for each worker that is new, has changed its state, or fell silent."""
        for worker_id, beat in self.fleet.heartbeats.items():
            state = beat.heartbeat.state
            state = "silent" if standing_of(beat, now_ms, silent_ms) == "silent" else state
            state = "ready" if state == "painting" else state
            if self._states.get(worker_id) != state:
                is_bad = state in ("failed", "hanging", "sick", "silent") and self._states.get(worker_id) != "stopped"
                if is_bad or state != "silent":
                    text = f"{worker_id} {state}{f' for {beat.heartbeat.variant}' if beat.heartbeat.variant else ''}"
                    self.happenings.add(Happening(max(beat.seen_ms, 0), "worker", text, "/fleet", is_bad))
                self._states[worker_id] = state


def is_in_time(result: Result, deadline_ms: int | None, slo_ms: float) -> bool | None:
    """Whether a request was answered in time; None without a time limit, or if its end says nothing of service."""
    if says_nothing_of_the_service(result.status, result.code) or (deadline_ms is None and not slo_ms):
        return None
    if result.status is not Status.COMPLETED:
        return False
    if deadline_ms is not None:
        return result.ended_ms <= deadline_ms
    return result.latency_ms is None or result.latency_ms <= slo_ms


Clock = Callable[[], int]
__all__ = ["TOPICS", "Clock", "TrackedRequest", "View"]
