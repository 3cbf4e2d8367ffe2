"""OpenAI's images API: converts a body of `/v1/images/...` to a request, and a result to an answer.

A parameter that cannot be honoured is refused by name, never ignored. Besides OpenAI's parameters the pipeline's own
fields are accepted under their own names (seed, steps, negative_prompt, tier ...).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agents.gateway.callers.bearer import TENANT
from agents.gateway.formats import BEST, COMPRESSED, NAMES, PNG, Format
from agents.gateway.refusals import INVALID, Refusal, refusal_of_error
from planner.serving.admission.admission import check, meant_deadline
from planner.serving.again import public
from planner.serving.deadlines import has_passed
from schemas.errors import InvalidRequest
from schemas.ids import new_request_id
from schemas.messages import GenerateOptions, GenerateRequest, Result, Status
from schemas.vocabulary import ALIASES, in_own_words
from streams.codec.prompt_file import request_of
from streams.codec.requests import unknown
from streams.settings import Requests

PLAN_CHOOSES: Final = "auto"  # the model that leaves the choice to the plan
QUALITIES: Final = {"xhigh": "high", "max": "high", "standard": "medium", "hd": "high"}  # others by their own names
MAX_PARTIAL: Final = 3  # as OpenAI has it
NAMED: Final = ("low", "medium", "high", "xhigh", "max")  # qualities that answers repeat
URL, BASE64 = "url", "b64_json"
PARAMS: Final = {"width": "size", "height": "size"}

# parameter -> the values of it that ask for nothing else than is done anyway, and why there are no others
ONLY: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "background": (("auto", "opaque"), "images have no transparency"),
    "moderation": (("auto",), "the deployment's settings safety.* decide which images are shown"),
}
END_USER: Final = ("safety_identifier", "user")  # the first that is stated
OWN: Final = (  # the pipeline's own fields that a client may state
    *(f.name for f in dataclasses.fields(GenerateOptions) if f.name not in ("n", "width", "height", "model")),
    "seed", "tier", "deadline_ms",
)  # fmt: skip
TAKEN: Final = (
    "prompt", "model", "n", "quality", "size", "output_format", "output_compression", "response_format", *END_USER,
    "stream", "partial_images", *ONLY, *OWN, *ALIASES,
)  # fmt: skip


GENERATION, EDIT = "image_generation", "image_edit"


class ImagesRequest(NamedTuple):
    """A request for images, and the form in which they are answered."""

    request: GenerateRequest
    format: Format
    as_url: bool
    quality: str | None  # as it was stated
    end_user: str  # the end user that the client states; "" if none
    partial_images: int | None = None  # max drafts, each in an event; None for one answer without events
    events: str = GENERATION  # what its events' names begin with
    any_form: bool = False  # its input images may be converted, as `strict` was not stated
    overridden: tuple[str, ...] = ()  # what the gateway changed

    def size_of(self, result: Result) -> str:
        """Return the size of the answer's images."""
        return self.format.size or f"{result.width}x{result.height}"


def parse(
    body: Mapping[str, Any],
    limits: Requests,
    now_ms: int,
    deadline_ms: int,
    tenant: str = TENANT,
    events: str = GENERATION,
) -> ImagesRequest:
    """Return what a tenant's body asks for.

    `deadline_ms`: the deadline of the request and of its answer (epoch ms). `events`: GENERATION or EDIT.

    Raises Refusal: a parameter that is unknown, wrong, or cannot be honoured.
    """
    stated = {name: value for name, value in body.items() if value is not None}
    for name in stated:
        if name not in TAKEN:
            raise Refusal("unsupported", unknown("parameter", name, TAKEN), param=name[:80])
    for name, (values, why) in ONLY.items():
        if name in stated and not any(stated[name] == value and type(stated[name]) is type(value) for value in values):
            raise _unsupported(name, values, stated[name], why)
    end_user = next((_text(name, stated[name]) for name in END_USER if name in stated), "")
    if stated.get("size") == PLAN_CHOOSES:
        del stated["size"]
    own, params = own_fields(stated, now_ms, PARAMS)
    fields = {name: own[name] for name in (*OWN, "prompt", "n", "width", "height") if name in own}
    fields |= {"strict": fields.get("strict", True)} | _model(stated) | _quality(stated)
    request = checked_request({"deadline_ms": deadline_ms, "tenant": tenant, **fields}, limits, now_ms, params)
    if request.deadline_ms is not None and request.deadline_ms > deadline_ms:
        name = params.get("deadline_ms", "deadline_ms")
        limit = f"{name} must be at most {deadline_ms - now_ms} ms ahead (gateway.wait_s)"
        raise Refusal("unsupported", f"{limit}: got {stated[name]}; ask at /v1/predictions", param=name)
    as_url = _one_of("response_format", stated.get("response_format", BASE64), (BASE64, URL)) == URL
    return ImagesRequest(
        request=request,
        format=_format(stated),
        as_url=as_url,
        quality=stated.get("quality"),
        end_user=end_user,
        partial_images=_partial_images(stated, request.options.n, as_url),
        events=events,
        any_form="strict" not in stated,
    )


def own_fields(
    stated: Mapping[str, Any], now_ms: int, params: Mapping[str, str], prefix: str = ""
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return what is stated under the pipeline's own names, and the API's name for each of them, where they differ.

    `prefix`: of the API's names. Raises Refusal for an alias beside its name, or one without its form.
    """
    aliases = {own: f"{prefix}{alias}" for alias in stated if alias in ALIASES for own in ALIASES[alias]}
    try:
        return in_own_words(stated, now_ms), {**params, **aliases}
    except InvalidRequest as error:
        raise refusal_of_error(error, {error.field: f"{prefix}{error.field}"}) from None


def checked_request(
    fields: Mapping[str, Any], limits: Requests, now_ms: int, params: Mapping[str, str]
) -> GenerateRequest:
    """Return the request with these fields. Raises Refusal, with the pipeline's text, if it is invalid."""
    fields = {"request_id": new_request_id(), **fields}
    try:
        request = request_of(dict(fields), now_ms)
        check(request, limits, now_ms)
    except InvalidRequest as error:
        raise refusal_of_error(error, params, fields["request_id"]) from None
    deadline_ms = request.deadline_ms
    if has_passed(deadline_ms, now_ms) and (meant := meant_deadline(deadline_ms or 0, now_ms)):
        fault, param = f"deadline_ms {deadline_ms} has passed: {meant}", params.get("deadline_ms", "deadline_ms")
        raise Refusal(INVALID, fault, param=param)
    return request


def passed_deadline(request: GenerateRequest, now_ms: int, params: Mapping[str, str]) -> Refusal | None:
    """Return the refusal of a new request whose deadline has passed; None if it has not."""
    if not has_passed(request.deadline_ms, now_ms):
        return None
    fault = f"deadline_ms {request.deadline_ms} has passed: now is {now_ms}; give a later one, or leave it out"
    return Refusal(INVALID, fault, param=params.get("deadline_ms", "deadline_ms"))


def answer(asked: ImagesRequest, result: Result, images: Sequence[str], now_ms: int) -> dict[str, Any]:
    """Return the answer to a request that has COMPLETED. `images`: their base64 texts, or URLs where those were asked.

    `pochade` is our addition: how the images were generated. There is no `usage`: nothing is counted in tokens.
    """
    name = URL if asked.as_url else BASE64
    said = {"quality": asked.quality} if asked.quality in NAMED else {}
    said |= {"safety_identifier": asked.end_user} if asked.end_user else {}
    return {
        "created": now_ms // 1000,
        "data": [{name: image} for image in images],
        "background": "opaque",
        "output_format": asked.format.name,
        "size": asked.size_of(result),
        **said,
        "pochade": provenance(result, asked.overridden, asked.request.options.reuse),
    }


def partial_event(asked: ImagesRequest, image: str, size: str, index: int, now_ms: int) -> dict[str, Any]:
    """Return the event of a draft. `image`: its base64 text. `index`: from 0."""
    return {**_event("partial_image", asked, image, size, now_ms), "partial_image_index": index}


def completed_event(asked: ImagesRequest, result: Result, image: str, now_ms: int) -> dict[str, Any]:
    """Return the event of one of the images of a request that has COMPLETED. `image`: its base64 text."""
    said = {"safety_identifier": asked.end_user} if asked.end_user else {}
    shown = _event("completed", asked, image, asked.size_of(result), now_ms)
    return {**shown, **said, "pochade": provenance(result, asked.overridden, asked.request.options.reuse)}


def _event(kind: str, asked: ImagesRequest, image: str, size: str, now_ms: int) -> dict[str, Any]:
    return {
        "type": f"{asked.events}.{kind}",
        BASE64: image,
        "created_at": now_ms // 1000,
        "size": size,
        "quality": asked.quality if asked.quality in NAMED else PLAN_CHOOSES,
        "background": "opaque",
        "output_format": asked.format.name,
    }


def provenance(result: Result, overridden: tuple[str, ...] = (), reuse: str = "") -> dict[str, Any]:
    """Return how a result's images were generated, in the shape that clients see.

    `overridden`: what the gateway changed before. `reuse`: as the request stated it; no plan of a deployment without a
    vector store asks for any.
    """
    if reuse == "own" and result.status is Status.COMPLETED and not (result.reused or result.reuse_miss):
        overridden = (*overridden, "reuse: own -> off")
    return {
        "request_id": result.request_id, "level": result.level, "escalated": result.escalated,
        "confidence": result.confidence, "components": list(result.components),
        "overridden": [*overridden, *result.overridden],
        "unsafe": result.unsafe, "safety": result.safety, "reused": result.reused, "reuse_miss": result.reuse_miss,
        "generate_ms": result.generate_ms, "latency_ms": result.latency_ms,
        "made": public(result.made) if result.made else None, "cost": result.cost,
    }  # fmt: skip


def _unsupported(name: str, values: Sequence[Any], value: Any, why: str) -> Refusal:
    known = " or ".join(map(repr, values))
    return Refusal("unsupported", f"{name} must be {known}, as {why}: got {value!r:.80}", param=name)


def _one_of(name: str, value: Any, known: Sequence[str]) -> Any:
    if value not in known:
        raise Refusal("unsupported", f"{name} must be one of {', '.join(known)}: got {value!r:.80}", param=name)
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > 512:
        raise Refusal("invalid", f"{name} must be a string of at most 512 characters: got {value!r:.80}", param=name)
    return value


def _partial_images(stated: Mapping[str, Any], n: int, as_url: bool) -> int | None:
    """Return the max number of drafts; None for one answer without events."""
    stream, drafts = stated.get("stream", False), stated.get("partial_images", 0)
    if not isinstance(stream, bool):
        raise Refusal("invalid", f"stream must be true or false: got {stream!r:.80}", param="stream")
    if isinstance(drafts, bool) or not isinstance(drafts, int) or not 0 <= drafts <= MAX_PARTIAL:
        fault = f"partial_images must be a whole number from 0 to {MAX_PARTIAL}: got {drafts!r:.80}"
        raise Refusal("invalid", fault, param="partial_images")
    if not stream:
        if drafts:
            raise Refusal("unsupported", f"partial_images must come with stream: got {drafts}", param="partial_images")
        return None
    if as_url:
        raise Refusal("unsupported", f"response_format must be {BASE64} with stream", param="response_format")
    if drafts and n > 1:
        fault = f"partial_images must be 0 if n is above 1, as drafts are sent for one image only: got {drafts}"
        raise Refusal("unsupported", fault, param="partial_images")
    return drafts


def _model(stated: Mapping[str, Any]) -> dict[str, Any]:
    model = stated.get("model", PLAN_CHOOSES)
    return {} if model == PLAN_CHOOSES else {"model": model}


def _quality(stated: Mapping[str, Any]) -> dict[str, Any]:
    if "quality" not in stated:
        return {}
    quality = stated["quality"]
    return {"quality": QUALITIES.get(quality, quality) if isinstance(quality, str) else quality}


def _format(stated: Mapping[str, Any]) -> Format:
    name = _one_of("output_format", stated.get("output_format", PNG), NAMES)
    quality = stated.get("output_compression", BEST)
    if isinstance(quality, bool) or not isinstance(quality, int) or not 0 <= quality <= BEST:
        fault = f"output_compression must be a whole number from 0 to {BEST}: got {quality!r:.80}"
        raise Refusal("invalid", fault, param="output_compression")
    if name not in COMPRESSED and quality != BEST:
        fault = f"output_compression must come with output_format {' or '.join(COMPRESSED)}: got {quality} with {name}"
        raise Refusal("unsupported", fault, param="output_compression")
    return Format(name, quality)
