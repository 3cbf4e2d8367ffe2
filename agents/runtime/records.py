"""Messages to records: the one way a role addresses, frames and stamps what it writes."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from schemas import topics
from schemas.avro import Message
from schemas.messages import Event, GenerateJob, Outcome
from schemas.record import Headers, Incoming, Outgoing
from streams import metrics
from streams.codec.avro import encode
from streams.codec.headers import ERROR, dead_letter, is_unread, stamp
from streams.kafka.producers.topic_limits import LIMITS
from streams.kafka.producers.writing import size_of

MAX_NAME = 200  # characters of an id in an error header: `planner.serving.admission` lets no longer one through
CUT_HEADER = 100  # bytes, more than the header takes that says that a value was cut


def outgoing(
    topic: str,
    message: Message,
    *,
    request_id: str,
    cause: Headers,
    role: str,
    now_ms: int,
    facts: Mapping[str, object] | None = None,
    partition: int | None = None,
) -> Outgoing:
    """A record that follows from another one (`cause`: that one's headers)."""
    kind = type(message).__name__
    headers = stamp(cause, kind=kind, source=role, subject=request_id, time_ms=now_ms, facts=facts)
    return Outgoing(topic=topic, key=request_id.encode(), value=encode(message), headers=headers, partition=partition)


def outcome_record(outcome: Outcome, cause: Headers, now_ms: int) -> Outgoing:
    """An outcome for the ledger, counted; of one too long to be written, how the request ended and its images."""
    metrics.OUTCOMES.labels(outcome.by, outcome.status).inc()
    record = _outcome(outcome, cause, now_ms)
    if size_of(record) <= LIMITS.of(topics.OUTCOMES):
        return record
    metrics.FALLBACKS.labels(outcome.by, "outcome-cut").inc()
    short = dataclasses.replace(outcome, request=None, classified=None, reason=outcome.reason[:500])
    return _outcome(short, {}, now_ms)


def _outcome(outcome: Outcome, cause: Headers, now_ms: int) -> Outgoing:
    return outgoing(
        topics.OUTCOMES, outcome, request_id=outcome.request_id, cause=cause, role=outcome.by, now_ms=now_ms,
        facts={"status": outcome.status},
    )  # fmt: skip


def job_record(job: GenerateJob, partition: int | None, cause: Headers, role: str, now_ms: int) -> Outgoing:
    """A job for one partition of its variant's topic; without an owner the key decides."""
    facts = {"level": job.level, "stage": job.stage, "plan_version": job.plan_version, "worker": job.worker_id}
    return outgoing(
        topics.jobs_topic(job.variant, 1).name, job, request_id=job.classified.request.request_id, cause=cause,
        role=role, now_ms=now_ms, facts=facts, partition=partition,
    )  # fmt: skip


def waiting_record(job: GenerateJob, cause: Headers, role: str, now_ms: int) -> Outgoing:
    """A job for the queue of its variant, where it waits for an idle worker."""
    facts = {"level": job.level, "stage": job.stage, "plan_version": job.plan_version}
    return outgoing(
        topics.waiting_topic(job.variant).name, job, request_id=job.classified.request.request_id, cause=cause,
        role=role, now_ms=now_ms, facts=facts, partition=0,
    )  # fmt: skip


def event_record(request_id: str, kind: str, role: str, now_ms: int, **detail: Any) -> Outgoing:
    """A note for `watch` and the dashboard."""
    event = Event(request_id=request_id, kind=kind, at_ms=now_ms, by=role, detail=json.dumps(detail))
    return outgoing(topics.EVENTS, event, request_id=request_id, cause={}, role=role, now_ms=now_ms)


def refused(record: Incoming, outcome: Outcome, error: Exception, now_ms: int) -> Sequence[Outgoing]:
    """The end of a record that cannot be served: its outcome, and its bytes on the dlq; these alone of an unread one.

    Of an outcome that cannot be written the id alone is left, and nothing of one whose id is no request's: a key may be
    of any size.
    """
    metrics.DEAD_LETTERS.labels(outcome.by, type(error).__name__).inc()
    letter = fitted_dead_letter(record, error=error, role=outcome.by, request_id=outcome.request_id)
    if is_unread(record, error):
        return [letter]
    said = outcome_record(outcome, record.headers, now_ms)
    most = LIMITS.of(topics.OUTCOMES)
    if size_of(said) > most:  # the path repeats what was asked
        short = dataclasses.replace(outcome, request=None, classified=None, path=(), reason=outcome.reason[:100])
        said = _outcome(short, {}, now_ms)
    return [letter] if size_of(said) > most else [said, letter]


def fitted_dead_letter(
    record: Incoming, *, error: BaseException, role: str, request_id: str, most: int | None = None
) -> Outgoing:
    """Return the dlq record; a value too long to be written with its error headers is cut to its beginning.

    A key or headers that alone are too long are left behind. `most`: bytes that the dlq takes, None: as this process
    knows; a letter is longer only where that is a few hundred.
    """
    most = LIMITS.of(topics.DLQ) if most is None else most
    letter = _cut(dead_letter(record, error=error, role=role, request_id=request_id[:MAX_NAME]), role, most)
    if size_of(letter) <= most:
        return letter
    plain = dataclasses.replace(record, headers={}, key=None)
    letter = _cut(dead_letter(plain, error=error, role=role, request_id=request_id[:MAX_NAME]), role, most)
    if size_of(letter) <= most:
        return letter
    message = letter.headers[f"{ERROR}message"][:CUT_HEADER]
    return dataclasses.replace(letter, headers={**letter.headers, f"{ERROR}message": message})


def _cut(letter: Outgoing, role: str, most: int) -> Outgoing:
    if (beyond := size_of(letter) - most) <= 0:
        return letter
    value = letter.value or b""
    metrics.FALLBACKS.labels(role, "dead-letter-cut").inc()
    headers = {**letter.headers, f"{ERROR}cut_from_bytes": str(len(value)).encode()}
    return dataclasses.replace(letter, value=value[: max(0, len(value) - beyond - CUT_HEADER)], headers=headers)
