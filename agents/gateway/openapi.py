"""The OpenAPI document of the gateway: its paths, the parameters that bodies may have, and its errors.

Generated from the tables by which bodies are read, so a client generated from it never sends an unknown parameter.
OpenAPI 3.1.0 (spec.openapis.org/oas/v3.1.0).
"""

from collections.abc import Mapping
from typing import Any, Final

from agents.gateway.formats import BEST, NAMES, PNG
from agents.gateway.openai_images import BASE64, END_USER, MAX_PARTIAL, NAMED, ONLY, OWN, PLAN_CHOOSES, QUALITIES, URL
from agents.gateway.predictions import ENDED, INPUT, OWNER, PROCESSING, STARTING
from agents.gateway.refusals import KINDS
from agents.gateway.sizes import ASPECT
from agents.gateway.webhooks.notices import EVENTS
from schemas.json_types import properties_of
from schemas.messages import GenerateOptions, GenerateRequest
from schemas.vocabulary import ALIASES, aliased

Schema = dict[str, Any]

VERSION: Final = "3.1.0"
PATH: Final = "/v1/openapi.json"
TEXT: Final[Schema] = {"type": "string"}
RATIO: Final[Schema] = {**TEXT, "description": "WIDTH:HEIGHT, such as 16:9, of about as many px as by default"}
JSON, FORM, EVENT_STREAM = "application/json", "multipart/form-data", "text/event-stream"
FIELDS: Final[Mapping[str, Schema]] = aliased(properties_of(GenerateRequest) | properties_of(GenerateOptions))


def document(release: str) -> Schema:
    """Return the document of a gateway of this release."""
    return {
        "openapi": VERSION,
        "info": {
            "title": "Pochade's gateway",
            "version": release,
            "description": "OpenAI's images API and Replicate's predictions on a deployment of Pochade. What is not "
            "listed here is refused by its name, never left out in silence.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{}, {"key": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {
                "key": {
                    "type": "http", "scheme": "bearer",
                    "description": "An API key (`pochade keys create`), where gateway.authentication is bearer.",
                },
            },
            "schemas": {
                "ImagesBody": images_body(),
                "EditBody": edit_body(),
                "Images": _images(),
                "PredictionBody": prediction_body(),
                "Prediction": _prediction(),
                "Error": _error(),
            },
            "responses": {"Error": {"description": "A refusal, with its code.", "content": _of("Error")}},
        },
    }  # fmt: skip


def _qualities() -> str:
    others = ", ".join(f"{other} for {word}" for other, word in QUALITIES.items())
    return f"{FIELDS['quality']['description']} Other names: {others}."


def images_body() -> Schema:
    """The parameters of `/v1/images/generations`; a test compares them with those that are read."""
    own = {name: FIELDS[name] for name in (*OWN, *ALIASES)}
    only = {name: {"enum": list(values), "description": why} for name, (values, why) in ONLY.items()}
    return _object(
        {
            **own,
            "prompt": FIELDS["prompt"],
            "model": {**TEXT, "default": PLAN_CHOOSES, "description": "auto, a variant, or a base (/v1/models)"},
            "n": FIELDS["n"],
            "quality": {"enum": sorted({PLAN_CHOOSES, *NAMED, *QUALITIES}), "description": _qualities()},
            "size": {**TEXT, "description": "WIDTHxHEIGHT in px, or auto"},
            ASPECT: RATIO,
            "output_format": {"enum": list(NAMES), "default": PNG},
            "output_compression": {"type": "integer", "minimum": 0, "maximum": BEST, "default": BEST},
            "response_format": {"enum": [BASE64, URL], "default": BASE64},
            **{name: {**TEXT, "maxLength": 512} for name in END_USER},
            "stream": {"type": "boolean", "default": False},
            "partial_images": {"type": "integer", "minimum": 0, "maximum": MAX_PARTIAL, "default": 0},
            **only,
        },
        "prompt",
    )


def edit_body() -> Schema:
    """The form of `/v1/images/edits`: the same parameters, and images as files."""
    file = {"type": "string", "contentMediaType": "image/*", "description": "PNG, JPEG or WebP, at most 20 MB, 8192 px"}
    body = images_body()
    taken = {name: each for name, each in body["properties"].items() if name not in ("image", "mask")}
    return _object({"image": file, "mask": file, **taken}, "image", "prompt")


def prediction_body() -> Schema:
    """The body of `/v1/predictions`."""
    return _object(
        {
            "input": _object({name: FIELDS[name] for name in (*INPUT, *ALIASES)} | {ASPECT: RATIO}, "prompt"),
            "model": {**TEXT, "default": PLAN_CHOOSES},
            "version": TEXT,
            "stream": {"type": "boolean"},
            "webhook": {**TEXT, "format": "uri", "description": "https, and no address of a private network"},
            "webhook_events_filter": {"type": "array", "items": {"enum": list(EVENTS)}},
        },
        "input",
    )


def _paths() -> Schema:
    identity = _parameter("id", "The prediction's id, from the answer that created it.")
    begun = {"201": _response("A job that has begun, or ended while it was waited for.", "Prediction")}
    found = {"200": _response("What is known of it.", "Prediction")}
    waits = [_header("Prefer", "wait, or wait=1 to wait=60: seconds"), _header("Cancel-After", "such as 90s or 5m")]
    once = [_header("Idempotency-Key", "Bodies with the same one are one request.")]
    images = {"200": _response("The images; with `stream` server-sent events.", "Images", streams=True)}
    generated = {
        "/v1/images/generations": {"post": _called("Generate images.", images, once, _of("ImagesBody"))},
        "/v1/images/edits": {"post": _called("Generate from an image.", images, once, _of("EditBody", FORM))},
        "/v1/models": {"get": _called("List what a request may name as its model.", {"200": _any("The models.")})},
        "/v1/models/{name}": {
            "get": _called("Show one model.", {"200": _any("The model.")}, [_parameter("name", "As it is listed.")])
        },
        "/v1/files/{token}": {"get": _called("Read an image.", {"200": _bytes("image/*")}, [_parameter("token", "")])},
    }
    content = {"content": {"type": "string", "contentMediaType": "image/*"}, "metadata": TEXT}
    upload = {FORM: {"schema": _object(content, "content")}}
    generated["/v1/files"] = {"post": _called("Store an image for inputs.", {"201": _any("It.")}, body=upload)}
    of_model = "/v1/models/{owner}/{name}"
    named = [_parameter("owner", f"{OWNER}, of every model."), _parameter("name", "Of the model.")]
    jobs = {
        "/v1/predictions": {
            "post": _called("Begin a job.", begun, [*waits, *once], _of("PredictionBody")),
            "get": _called("List the newest jobs, by pages of 100.", {"200": _any("A page.")}, [_cursor()]),
        },
        of_model: {"get": _called("Show one model.", {"200": _any("The model.")}, named)},
        f"{of_model}/predictions": {
            "post": _called(
                "Begin a job on one model.", begun, [*named, *waits, *once], _of("PredictionBody"),
            )
        },
        "/v1/predictions/{id}": {"get": _called("Show a job.", found, [identity, waits[0]])},
        "/v1/predictions/{id}/explain": {
            "get": _called("Say why a job ended so, or what it waits for.", {"200": _any("Why.")}, [identity])
        },
        "/v1/predictions/{id}/cancel": {"post": _called("End a job.", found, [identity])},
        "/v1/receipts/{id}": {
            "get": _called("Prove why a job ended so, and what made it.", {"200": _any("The receipt.")}, [identity])
        },
        "/v1/streams/{token}": {
            "get": _called(
                "Follow a job's events.", {"200": _bytes(EVENT_STREAM), "204": {"description": "The client has all."}},
                [_parameter("token", ""), _header("Last-Event-ID", "The last event that the client has.")],
            )
        },
        "/v1/webhooks/default/secret": {"get": _called("Show the webhooks' secret.", {"200": _any("The secret.")})},
        PATH: {"get": _called("Show this document.", {"200": _any("OpenAPI 3.1.")})},
    }  # fmt: skip
    return generated | jobs


def _called(summary: str, answers: Schema, given: list[Schema] | None = None, body: Schema | None = None) -> Schema:
    asked = {"requestBody": {"required": True, "content": body}} if body else {}
    parameters = {"parameters": given} if given else {}
    return {"summary": summary, **parameters, **asked, "responses": answers | {"default": _ref("responses", "Error")}}


def _images() -> Schema:
    image = {"type": "object", "properties": {BASE64: TEXT, URL: {**TEXT, "format": "uri"}}}
    made = {"type": "object", "description": "How they were made; no part of OpenAI's answer."}
    answered = {"created": {"type": "integer"}, "data": {"type": "array", "items": image}, "pochade": made}
    return {"type": "object", "properties": {**answered, "size": TEXT, "output_format": TEXT, "quality": TEXT}}


def _prediction() -> Schema:
    moment = {"type": ["string", "null"], "format": "date-time"}
    urls = {name: {**TEXT, "format": "uri"} for name in ("get", "cancel", "stream")}
    waiting = {"place": {"type": ["integer", "null"]}, "expected_ms": {"type": ["integer", "null"]}}
    return {
        "type": "object",
        "required": ["id", "status", "input", "output", "urls"],
        "properties": {
            "id": TEXT, "model": TEXT, "version": TEXT, "status": {"enum": [STARTING, PROCESSING, *_ends()]},
            "input": {"type": "object"}, "output": {"type": ["array", "null"], "items": TEXT}, "logs": TEXT,
            "error": {"type": ["string", "null"]}, "metrics": {"type": "object"},
            "created_at": moment, "started_at": moment, "completed_at": moment,
            "urls": {"type": "object", "properties": urls},
            "pochade": {
                "type": "object", "properties": waiting,
                "description": "While it waits its place and the time until its end in ms; then how it was made.",
            },
        },
    }  # fmt: skip


def _ends() -> list[str]:
    return list(dict.fromkeys(ENDED.values()))


def _error() -> Schema:
    error = {
        "message": TEXT, "type": {"enum": sorted({kind.type for kind in KINDS.values()})},
        "param": {"type": ["string", "null"]},
        "code": {**TEXT, "examples": sorted(KINDS), "description": "The pipeline's own, as in results."},
    }  # fmt: skip
    return {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {"type": "object", "properties": error},
            "title": TEXT, "status": {"type": "integer"}, "detail": TEXT,
        },
    }  # fmt: skip


def _object(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "required": [*required], "properties": properties, "additionalProperties": False}


def _ref(kind: str, name: str) -> Schema:
    return {"$ref": f"#/components/{kind}/{name}"}


def _of(name: str, media_type: str = JSON) -> Schema:
    return {media_type: {"schema": _ref("schemas", name)}}


def _response(what: str, name: str, *, streams: bool = False) -> Schema:
    events = {EVENT_STREAM: {"schema": TEXT}} if streams else {}
    return {"description": what, "content": _of(name) | events}


def _any(what: str) -> Schema:
    return {"description": what, "content": {JSON: {"schema": {"type": "object"}}}}


def _bytes(media_type: str) -> Schema:
    return {"description": "As it is.", "content": {media_type: {}}}


def _parameter(name: str, what: str) -> Schema:
    described = {"description": what} if what else {"description": "Signed; part of an address that an answer gave."}
    return {"name": name, "in": "path", "required": True, "schema": TEXT, **described}


def _header(name: str, what: str) -> Schema:
    return {"name": name, "in": "header", "schema": TEXT, "description": what}


def _cursor() -> Schema:
    return {"name": "cursor", "in": "query", "schema": TEXT, "description": "The cursor in the previous page's `next`."}
