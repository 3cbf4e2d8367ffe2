"""Replicate's predictions API: converts a body of `/v1/predictions` to a request, and a job to a prediction."""

import contextlib
import dataclasses
import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agents.gateway.callers.bearer import TENANT
from agents.gateway.jobs import Job
from agents.gateway.openai_images import PLAN_CHOOSES, checked_request, own_fields, provenance
from agents.gateway.refusals import Refusal
from agents.gateway.streaming.notes import begun_in
from planner.serving.routing.expecting import Expectation
from schemas.messages import GenerateOptions, GenerateRequest, Result, Status
from schemas.vocabulary import ALIASES
from streams.codec.requests import stated, unknown
from streams.operator.explain import asked_in_words, steps_of, why
from streams.settings import Requests

OWNER: Final = "pochade"  # of every model: OWNER/NAME
STARTING, PROCESSING, SUCCEEDED, FAILED, CANCELED = "starting", "processing", "succeeded", "failed", "canceled"
ENDED: Final[Mapping[Status, str]] = {
    Status.COMPLETED: SUCCEEDED,
    Status.REJECTED: FAILED,
    Status.FAILED: FAILED,
    Status.CANCELLED: CANCELED,
    Status.EXPIRED: CANCELED,  # Replicate ends a job so at its Cancel-After; its client fails on the newer "aborted"
}
INPUT: Final = tuple(
    each.name
    for kind in (GenerateRequest, GenerateOptions)
    for each in dataclasses.fields(kind)
    if each.name not in ("request_id", "created_ms", "tenant", "options", "model")
)
PARAMS: Final = {"model": "version"} | {name: f"input.{name}" for name in INPUT}
EXPLAINED: Final = (  # of a stage; where images lie and which worker it was is the deployment's own business
    "stage", "level", "plan_version", "probability", "attempt", "batch", "queue_ms", "generate_ms", "times",
    "confidence", "threshold", "discriminator", "refine_from_step", "reuse", "components", "overridden",
)  # fmt: skip
WEBHOOK_FIELDS: Final = ("webhook", "webhook_events_filter")  # of a body: `webhooks/` reads these
MAX_WAIT_S: Final = 60
DURATION: Final = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,7}(?:\.\d{1,3})?)s?)?", re.ASCII)


def parse(
    body: Mapping[str, Any],
    limits: Requests,
    now_ms: int,
    model: str = "",
    cancel_after_ms: int | None = None,
    tenant: str = TENANT,
) -> GenerateRequest:
    """Return the request that a tenant's body asks for.

    `model`: from the path; if "", the body's, else the plan's choice.

    Options that a variant would override are refused unless the input says `strict: false`.

    Raises Refusal: a parameter that is unknown, wrong, or cannot be honoured.
    """
    stated = {name: value for name, value in body.items() if value is not None}
    if not isinstance(stated.pop("stream", False), bool):  # urls.stream is there in any case
        raise Refusal("invalid", f"stream must be true or false: got {body['stream']!r:.80}", param="stream")
    for name in stated:
        if name not in ("input", "version", "model", *WEBHOOK_FIELDS):
            known = f"input, version, model, stream, {', '.join(WEBHOOK_FIELDS)}"
            raise Refusal("unsupported", f"unknown parameter {name!r:.80}: known are {known}", param=name[:80])
    given = stated.get("input", {})
    if not isinstance(given, dict):
        raise Refusal("invalid", f"input must be an object: got {given!r:.80}", param="input")
    for name in given:
        if name not in INPUT and name not in ALIASES:
            raise Refusal("unsupported", unknown("input", name, (*INPUT, *ALIASES)), param=f"input.{name:.80}")
    given = {name: value for name, value in given.items() if value is not None}
    fields, params = own_fields(given, now_ms, PARAMS, "input.")
    if cancel_after_ms is not None:
        fields.setdefault("deadline_ms", now_ms + cancel_after_ms)
    named = name_of(model or stated.get("version", stated.get("model", PLAN_CHOOSES)))
    fields = {"strict": True, "tenant": tenant, **fields} | ({} if named == PLAN_CHOOSES else {"model": named})
    return checked_request(fields, limits, now_ms, params)


def name_of(model: Any) -> Any:
    """Return a model's name without `pochade/`, with which clients may begin it."""
    return model.removeprefix(f"{OWNER}/") if isinstance(model, str) else model


def model_of(path: Mapping[str, str]) -> str:
    """Return the model that a path names, as NAME or as OWNER/NAME; "": none."""
    return str(name_of("/".join(path[part] for part in ("owner", "name") if part in path)))


def wait_s(prefer: str) -> float:
    """Return the seconds to wait for the end by a header `Prefer: wait` or `wait=N`; 0 if it is empty.

    Raises Refusal for another preference, or a number that is none of 1 to MAX_WAIT_S.
    """
    if not prefer or prefer == "respond-async":
        return 0
    name, equals, number = prefer.replace(" ", "").partition("=")
    if name == "wait" and not equals:
        return MAX_WAIT_S
    if name == "wait" and number.isascii() and number.isdigit() and len(number) < 5 and 1 <= int(number) <= MAX_WAIT_S:
        return int(number)
    raise Refusal("invalid", f"Prefer must be wait, or wait=1 to wait={MAX_WAIT_S}: got {prefer!r:.80}", param="Prefer")


def cancel_after_ms(value: str) -> int | None:
    """Return the time in ms of a header `Cancel-After`, such as 90s, 5m or 1h30m; None if it is empty.

    Raises Refusal for what is no such time, or none that is above 0.
    """
    if not value:
        return None
    found = DURATION.fullmatch(value.strip())
    hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0, 0, 0)
    total_ms = round(1000 * (3600 * hours + 60 * minutes + seconds))
    if total_ms <= 0:
        limit = "Cancel-After must be a time such as 90s, 2.5s, 5m or 1h30m"
        raise Refusal("invalid", f"{limit}: got {value!r:.80}", param="Cancel-After")
    return total_ms


def prediction(
    job: Job,
    base_url: str,
    stream: str,
    logs: Sequence[str],
    images: Sequence[str] = (),
    expected: Expectation | None = None,
    *,
    is_lost: bool = False,
) -> dict[str, Any]:
    """Return a job in the shape of Replicate's predictions.

    `stream`: the URL of its events. `logs`: a line for each event. `images`: URLs of its images. `expected`: place and
    time of an open request; null in the answer if None. `is_lost`: the worker that had begun it
    does not live.
    """
    result, request = job.result, job.request
    asked = (request.options.model if request else "") or PLAN_CHOOSES
    ended_ms = result.ended_ms if result else None
    mine = f"{base_url}/v1/predictions/{job.request_id}"
    status = ENDED[result.status] if result else PROCESSING if job.started_ms is not None and not is_lost else STARTING
    is_bad = result is not None and result.status is not Status.COMPLETED
    return {
        "id": job.request_id,
        "model": f"{OWNER}/{asked}",
        "version": asked,
        "status": status,
        "input": _input(request) if request else {"prompt": result.prompt} if result else {},
        "output": list(images) or None,
        "logs": "".join(f"{line}\n" for line in logs),
        "error": f"{result.code or str(result.status).lower()}: {result.reason}" if result and is_bad else None,
        "metrics": _metrics(job),
        "created_at": moment(job.created_ms),
        "started_at": moment(job.started_ms),
        "completed_at": moment(ended_ms),
        "urls": {"get": mine, "cancel": f"{mine}/cancel", "stream": stream},
        "pochade": _ending(result, request) if result else {"request_id": job.request_id, **_waiting(expected)},
    }


def _ending(result: Result, request: GenerateRequest | None) -> dict[str, Any]:
    """Return the pipeline's status and code, which Replicate's statuses merge, and how the images were generated."""
    return provenance(result, reuse=request.options.reuse if request else "") | {
        "status": str(result.status), "code": result.code, "reason": result.reason, "param": result.param,
        "retry_after_ms": result.retry_after_ms,
    }  # fmt: skip


def explanation(job: Job, hindered: str) -> dict[str, Any]:
    """Return why a job ended as it did, in the words of `pochade explain`, and its stages without workers and URIs.

    `hindered`: that its worker is lost, or that no worker serves what it waits for; "": neither, or this is not known.
    """
    if job.result is None:
        reason = hindered or ("a worker generates it" if begun_in(job.notes) else "it waits for a worker")
        path: list[dict[str, Any]] = []
    else:
        reason = why(job.result)
        stages = map(dataclasses.asdict, steps_of(job.result))
        path = [{name: stage[name] for name in EXPLAINED} for stage in stages]
    asked = asked_in_words(job.request) if job.request else None
    return {"id": job.request_id, "why": reason, "path": path, "asked": asked}


def _metrics(job: Job) -> dict[str, float]:
    result = job.result
    if result is None or result.status is not Status.COMPLETED:
        return {}
    total = {} if result.latency_ms is None else {"total_time": result.latency_ms / 1000}
    return {"predict_time": result.generate_ms / 1000, **total}


def _waiting(expected: Expectation | None) -> dict[str, int | None]:
    """Return a request's place in the queue, 0 once a worker has it, and the ms until its end; null: unknown."""
    if expected is None:
        return {"place": None, "expected_ms": None}
    return {"place": expected.place, "expected_ms": round(expected.left_ms)}


def _input(request: GenerateRequest) -> dict[str, Any]:
    """Return the fields that a request states, as JSON has them."""
    return {name: value for name, value in stated(request).items() if name in INPUT}


def moment(ms: float | None) -> str | None:
    """Return a time (epoch ms) as ISO 8601; None for None, and for one that no calendar has."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        if ms is not None:
            return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).isoformat(timespec="milliseconds")
    return None
