"""The next event of a webhook, and a webhook's state after an attempt, as pure functions."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from agents.gateway.jobs import Job
from agents.gateway.refusals import Refusal
from schemas.messages import Status, Webhook

START, OUTPUT, LOGS, COMPLETED = "start", "output", "logs", "completed"
EVENTS: Final = (START, OUTPUT, LOGS, COMPLETED)
USUAL: Final = (OUTPUT, COMPLETED)  # events by default, as at Replicate
FILTER: Final = "webhook_events_filter"
FIRST_MS: Final = 1000  # from the first attempt that failed to the second
LONGEST_MS: Final = 900_000
SPREAD: Final = 0.2  # random share of a wait, so that attempts which failed together are repeated apart


def events_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the events that a body's `webhook_events_filter` names. Raises Refusal."""
    stated = body.get(FILTER)
    if stated is None:
        return USUAL
    if not body.get("webhook"):
        raise Refusal("invalid", f"{FILTER} must be left out without a webhook", param=FILTER)
    if not isinstance(stated, list) or not stated or not all(each in EVENTS for each in stated):
        raise Refusal("invalid", f"{FILTER} must list some of {', '.join(EVENTS)}: got {stated!r:.80}", param=FILTER)
    return tuple(each for each in EVENTS if each in stated)


def kind_of(event: str) -> str:
    """Return the kind of an event: `logs` of `logs.17`."""
    return event.partition(".")[0]


def next_event(hook: Webhook, job: Job) -> str | None:
    """Return the event to deliver next: the pending one, else the first new one; None if there is none.

    A pending event waits at a gateway that has not read yet what it is about.
    """
    come = _come_about(job)
    if hook.pending and (job.result is not None or any(_covers(event, hook.pending) for event in come)):
        return hook.pending
    return next((event for event in come if kind_of(event) in hook.events and _is_new(event, hook)), None)


def _covers(event: str, pending: str) -> bool:
    """Whether `event` includes the pending event."""
    both_logs = kind_of(event) == kind_of(pending) == LOGS
    return _offset(event) >= _offset(pending) if both_logs else event == pending


def _come_about(job: Job) -> list[str]:
    has_images = job.result is not None and job.result.status is Status.COMPLETED
    return [
        *([START] if has_images or job.started_ms is not None else []),
        *([f"{LOGS}.{job.notes[-1].offset}"] if job.notes else []),  # the newest note: its `logs` hold all
        *([OUTPUT] if has_images else []),
        *([COMPLETED] if job.result is not None else []),
    ]


def _is_new(event: str, hook: Webhook) -> bool:
    if kind_of(event) != LOGS:
        return event not in hook.told
    return all(_offset(event) > _offset(sent) for sent in hook.told if kind_of(sent) == LOGS)


def _offset(event: str) -> int:
    return int(event.partition(".")[2])


def theirs(job: Job, hook: Webhook) -> Job:
    """Return a job without the request and result of another tenant that used its id."""
    request = job.request if job.request is not None and job.request.tenant == hook.tenant else None
    result = job.result if job.result is not None and job.result.tenant in ("", hook.tenant) else None
    return dataclasses.replace(job, request=request, result=result, created_ms=job.created_ms or hook.created_ms)


def is_over(hook: Webhook, job: Job) -> bool:
    """Whether all events of a webhook are delivered."""
    return job.result is not None and next_event(hook, job) is None


def with_delivered(hook: Webhook, event: str) -> Webhook:
    """Return a webhook after an event was delivered or given up."""
    others = [each for each in hook.told if kind_of(each) != LOGS or kind_of(event) != LOGS]
    return dataclasses.replace(hook, told=(*others, event), pending="", attempts=0, next_ms=0)


def begun_anew(hook: Webhook, event: str) -> Webhook:
    """Return a webhook for the dlq after an event was given up; redriven, it begins with this event."""
    return dataclasses.replace(hook, pending=event, attempts=0, next_ms=0)


def failed(hook: Webhook, event: str, now_ms: int, draw: float) -> Webhook:
    """Return a webhook after a failed attempt, to be repeated after a wait that doubles.

    `draw`: uniform in [0, 1), for the random share of the wait.
    """
    wait_ms = min(LONGEST_MS, FIRST_MS * 2**hook.attempts) * (1 - SPREAD * draw)
    return dataclasses.replace(hook, pending=event, attempts=hook.attempts + 1, next_ms=now_ms + round(wait_ms))
