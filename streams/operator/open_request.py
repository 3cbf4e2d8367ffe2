"""Says what a request without a result waits for, from the records of its way and the queue of its level."""

from collections.abc import Sequence
from typing import NamedTuple

from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.observation.lost import Begun, lost
from planner.observation.workers import FORGET_MS, standing_of
from planner.serving.routing.composing import fit_of
from planner.serving.routing.unserved import Variants, waiting_in_words
from schemas.errors import InvalidRecord
from schemas.messages import ClassifiedRequest, EventKind, GenerateRequest
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, EVENTS, FLEET, jobs_topic
from streams import catalogs
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.control.heartbeats import newest_beats
from streams.kafka.consumers import snapshot
from streams.operator import doctor
from streams.operator.explain import asked_in_words
from streams.operator.watch import note_of
from streams.settings import Settings

MOVES = (EventKind.ESCALATED, EventKind.REROUTED)


class Step(NamedTuple):
    """The last step of a request that is known."""

    at_ms: int
    variants: Variants = ()  # of which it needs a worker now; (): any, or not known
    worker: str = ""  # that began it; "": it waits
    request: GenerateRequest | None = None  # None: its record is gone, or of a newer release


def waits_for(settings: Settings, request_id: str, since_ms: int) -> str:
    """Return what a request without a result waits for and asks for, in words; "": no role has written a record of it
    since then. Raises PochadeError: topics or groups could not be read, or the catalog is none.
    """
    key = request_id.encode()
    way = snapshot.past(settings, [CLASSIFIED, EVENTS], since_ms=since_ms, keep=lambda record: record.key == key)
    catalog = catalogs.load(settings.catalog)
    step = last_step(way, catalog)
    if step is None:
        return ""
    asked = f"; it asks for {asked_in_words(step.request)}" if step.request else ""
    return f"{_waiting(settings, step, catalog)}{asked}"


def _waiting(settings: Settings, step: Step, catalog: Catalog) -> str:
    at_ms, silent_ms = now_ms(), settings.planner.worker_timeout_ms
    beats = newest_beats(snapshot.past(settings, [FLEET], since_ms=at_ms - FORGET_MS))
    ready = [each.heartbeat for each in beats.values() if standing_of(each, at_ms, silent_ms) == "ready"]
    is_served = any(beat.variant in step.variants for beat in ready)
    age_s = max(0, at_ms - step.at_ms) / 1000
    if step.worker:
        begun = Begun(step.worker, step.variants[0], step.at_ms)
        gone = lost(begun, beats, at_ms, silent_ms, settings.kafka.session_timeout_ms)
        if gone is None:
            return f"{step.worker} began it on {begun.variant} {age_s:.0f} s ago"
        return gone.in_words(is_served=is_served, names_worker=True)
    if not step.variants:
        is_ready = bool(ready)
        return (
            f"it was classified {age_s:.0f} s ago, and no worker {'has begun it' if is_ready else 'is ready to serve'}"
        )
    queues = [
        doctor.attendance(settings, f"worker.{variant}", jobs_topic(variant, 1).name, with_age=True)
        for variant in step.variants
        if variant in catalog.served
    ]
    oldest_s = max([age_s, *(queue.oldest_s for queue in queues if queue.oldest_s is not None)])
    waiting = max(1, sum(queue.behind for queue in queues))
    return waiting_in_words(step.variants, waiting, oldest_s, is_served=is_served)


def last_step(way: Sequence[Incoming], catalog: Catalog) -> Step | None:
    """Return the newest step that the records of a request report; None without any."""
    step: Step | None = None
    for record in sorted(way, key=lambda each: (each.timestamp_ms, each.topic == EVENTS)):
        try:
            found = _step_in(record, catalog)
            if found is not None:
                step = found._replace(request=found.request or (step.request if step else None))
        except InvalidRecord:
            continue
    return step


def _step_in(record: Incoming, catalog: Catalog) -> Step | None:
    if record.topic == CLASSIFIED:
        request = decode(record.value, ClassifiedRequest).request
        fit = fit_of(request.options, request.quality, catalog)
        return Step(record.timestamp_ms, fit.needs(), request=request)
    note = note_of(record)
    if note.kind == EventKind.STARTED:
        return Step(record.timestamp_ms, (variant_of(str(note.detail.get("level"))),), str(note.detail.get("worker")))
    return Step(record.timestamp_ms, (variant_of(str(note.detail.get("to"))),)) if note.kind in MOVES else None
