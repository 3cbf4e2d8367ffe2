"""Requests as producers write them: framed Avro, or one flat JSON object of which only `prompt` is required."""

import dataclasses
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Final

from schemas.errors import InvalidRecord, InvalidRequest, Unknown
from schemas.messages import GenerateOptions, GenerateRequest
from schemas.record import Incoming
from schemas.vocabulary import ALIASES, as_stated, in_own_words
from streams.codec.avro import decode, is_unicode, json_object
from streams.codec.request_ids import request_id_of

OPTIONS = typing.get_type_hints(GenerateOptions)
HINTS = {**typing.get_type_hints(GenerateRequest), **OPTIONS}  # options stand beside the other keys in JSON
del HINTS["options"]
LONG = 2**63  # Avro's integers are below
NO_ID = ("request_id", "")  # as good as none
SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {  # name in another product -> ours; several: all of them
    "aspect_ratio": ("size",),
    "cfg": ("guidance",),
    "cfg_scale": ("guidance",),
    **dict.fromkeys(("deadline", "deadline_s", "deadline_in_s", "timeout_s"), ("deadline_in_ms",)),
    "height": ("size",),
    "id": ("request_id",),
    "image_url": ("image",),
    "images": ("n",),
    "init_image": ("image",),
    "input_image": ("image",),
    "lora": ("adapters",),
    "lora_scale": ("adapter_weights",),
    "loras": ("adapters",),
    "negative": ("negative_prompt",),
    "num_images": ("n",),
    "num_steps": ("steps",),
    "prompt_strength": ("strength",),
    "sampling_steps": ("steps",),
    "service_tier": ("tier",),
    "sizes": ("size",),
    "text": ("prompt",),
    "width": ("size",),
}
GATEWAYS = "the gateway does it (POST /v1/images/generations)"
FOREIGN: Final[Mapping[str, str]] = {  # parameter of another product or door -> what to do instead or besides
    **dict.fromkeys(
        ("deadline", "deadline_s", "deadline_in_s", "timeout_s"), "it counts ms from now on: 2.5 s are 2500"
    ),
    "idempotency_key": "the header Idempotency-Key states it, and over Kafka request_id is as good",
    "disable_safety_checker": "the deployment's settings safety.* decide",
    "go_fast": "quality: low asks for the cheapest level",
    "input_fidelity": "strength says which share of the steps may change the image",
    "megapixels": "size states both sides in px",
    **dict.fromkeys(("output_format", "output_compression", "response_format", "stream", "partial_images"), GATEWAYS),
    "scheduler": "each level has its own (/v1/models/NAME)",
    "style": "dall-e-3 has it; here the prompt says the style, or an adapter of it (adapters)",
}
WORDS: dict[Any, str] = {
    str: "a string",
    int: "an integer",
    int | None: "an integer or null",
    float | None: "a number or null",
    bool: "true or false",
    tuple[str, ...]: "a list of strings",
    tuple[float, ...]: "a list of numbers",
}


def decode_request(record: Incoming) -> GenerateRequest:
    """The request in a record of `prompts`: framed Avro, or one JSON object with the fields of both message types.

    Raises:
        InvalidRecord: not readable at all.
        InvalidRequest: readable JSON with an unknown key or a value of the wrong type.
    """
    if record.value is None:
        goes_on = "a request under this key goes on; `pochade cancel ID`, or its cancel address over HTTP, ends one"
        raise InvalidRecord(f"no value (a tombstone): it ends no request: {goes_on}")
    if record.value and record.value[0] == 0:
        request = decode(record.value, GenerateRequest)
        return request if request.request_id else dataclasses.replace(request, request_id=request_id_of(record))
    given = json_object(record.value, without_repeated_keys)
    if given.keys() == {"schema", "payload"}:
        advice = "set value.converter.schemas.enable=false, so that the payload alone is sent"
        raise InvalidRequest(f"a record of Kafka Connect with its schema around the request: {advice}", field="payload")
    try:
        fields = {name: _checked(name, value) for name, value in in_own_words(given, record.timestamp_ms).items()}
    except InvalidRequest as error:
        raise as_stated(error, given) from None
    if "prompt" not in fields:
        raise InvalidRequest('request field "prompt" is missing: send {"prompt": "a red heart"}', field="prompt")
    own: dict[str, Any] = {"request_id": request_id_of(record), "created_ms": record.timestamp_ms}
    own |= {name: value for name, value in fields.items() if name not in OPTIONS and (name, value) != NO_ID}
    options = GenerateOptions(**{name: value for name, value in fields.items() if name in OPTIONS})
    return GenerateRequest(**own, options=options)


def names_in(record: Incoming) -> Iterable[str]:
    """Return the names of the fields of a record that was read as a request; (): it has all, as Avro does."""
    return json_object(record.value) if record.value and record.value[0] else ()


def stated(request: GenerateRequest) -> dict[str, Any]:
    """Return the JSON fields of what a request states, its id and time apart, as `decode_request` reads them."""
    plain = GenerateRequest(request_id=request.request_id, prompt="", created_ms=request.created_ms)
    found: dict[str, Any] = {}
    for given, default in ((request, plain), (request.options, plain.options)):
        names = (each.name for each in dataclasses.fields(given) if each.name != "options")
        found |= {name: value for name in names if (value := getattr(given, name)) != getattr(default, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a JSON object. Raises InvalidRequest for a key that stands twice."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise InvalidRequest(f"the key {name!r:.80} stands twice in one JSON object: give it once", field=name)
        fields[name] = value
    return fields


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that a door knows no such field, which one was meant, and what to do instead of another product's."""
    return str(Unknown(kind, name[:80], known, SYNONYMS, FOREIGN.get(name, "")))


def _checked(name: str, value: Any) -> Any:
    if name not in HINTS:
        raise InvalidRequest(unknown("request field", name, (*HINTS, *ALIASES)), field=name)
    hint = HINTS[name]
    if not _fits(value, hint):
        raise InvalidRequest(f"request field {name!r} must be {WORDS[hint]}: got {value!r:.80}", field=name)
    numbers = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, int)]
    if not all(-LONG <= number < LONG for number in numbers):
        raise InvalidRequest(f"request field {name!r} must fit into 64 bits: got {value!r:.80}", field=name)
    texts = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
    if not all(is_unicode(text) for text in texts):
        fault = f"request field {name!r} must be valid Unicode: it holds half a surrogate pair"
        raise InvalidRequest(fault, field=name)
    if isinstance(value, list):
        return tuple(map(float, value)) if hint == tuple[float, ...] else tuple(value)
    return float(value) if hint == float | None and isinstance(value, int) else value


def _fits(value: Any, hint: Any) -> bool:
    if hint == tuple[str, ...]:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if hint == tuple[float, ...]:
        return isinstance(value, list) and all(_fits(item, float) for item in value)
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)  # Python counts true as an integer; we do not
    if hint is float:
        return isinstance(value, (int, float))
    return isinstance(value, (int, float, type(None)) if hint == float | None else hint)
