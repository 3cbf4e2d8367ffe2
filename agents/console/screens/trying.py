"""*Try*: a form with all that a request may state, beside its image.

The form is made from the declaration of a request's fields, as the other doors are; where one text states several
fields (`size`, `adapter`, `control`, `deadline_in_ms`), it stands for them.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agents.console.screens.context import Context
from agents.console.screens.requests import href, images_of, lost_in_words
from schemas.messages import GenerateRequest
from schemas.vocabulary import ALIASES, DECLARED, SCHEMAS, WEIGHTS
from streams.codec.requests import stated
from streams.operator.explain import why

REPLACED: Final = {name: alias for alias in SCHEMAS for name in ALIASES[alias]}  # field -> the text that states it
BESIDE: Final = (  # which the texts of adapters and controls state, too, or the form itself
    *WEIGHTS.values(), "control_images", "prompt", "request_id",
)  # fmt: skip
NAMED: Final = tuple(dict.fromkeys(REPLACED.get(name, name) for name in DECLARED if name not in BESIDE))
LISTS: Final = ("adapter", "control")
FIRST: Final = (
    "model", "quality", "size", "steps", "guidance", "seed", "n", "tier", "adapter", "image", "negative_prompt",
)  # fmt: skip


class Field(NamedTuple):
    """A field of the form."""

    name: str
    help: str
    value: str
    choices: tuple[str, ...] = ()  # the only values; (): any
    known: tuple[str, ...] = ()  # values that are offered
    is_flag: bool = False
    is_number: bool = False
    is_long: bool = False
    placeholder: str = "default"

    @property
    def is_first(self) -> bool:
        """Whether it is shown at once; else under *More*."""
        return self.name in FIRST


def fields_of(context: Context, request: GenerateRequest | None) -> list[Field]:
    """Return the form's fields, with what a request has stated, but its prompts unless these are shown."""
    given = _given(request) if request is not None else {}
    given = {
        name: value for name, value in given.items() if context.is_clear or name not in ("prompt", "negative_prompt")
    }
    served = context.view.catalog.served
    models = tuple(dict.fromkeys([*served, *(base for each in served.values() for base in each.bases)]))
    names = sorted(NAMED, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    return [_field(name, str(given.get(name, "")), models if name == "model" else ()) for name in names]


def _field(name: str, value: str, known: tuple[str, ...]) -> Field:
    if name in SCHEMAS:
        several = " Several stand with spaces between." if name in LISTS else ""
        return Field(name, f"{SCHEMAS[name]['description']}{several}", value, is_number=name == "deadline_in_ms")
    declared = DECLARED[name]
    limits = f" {declared.about.span[:1].upper()}{declared.about.span[1:]}." if declared.about.span else ""
    return Field(
        name, declared.about.help + limits, value, declared.about.words, known, is_flag=declared.type is bool,
        is_number=declared.numbers is not None and not declared.is_list, is_long=name == "negative_prompt",
        placeholder=declared.about.placeholder or "default",
    )  # fmt: skip


def read(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON fields that a form states; a wrong number stays a text, which their check refuses."""
    found: dict[str, Any] = {"prompt": form.get("prompt", "")}
    for name in NAMED:
        text = form.get(name, "").strip()
        if text:
            found[name] = text.split() if name in LISTS else _value(name, text)
    return found


def _value(name: str, text: str) -> Any:
    declared = DECLARED.get(name)
    if declared is not None and declared.type is bool:
        return text == "on"
    kinds = (int, float) if declared is not None and declared.numbers is float else (int,)
    if name == "deadline_in_ms" or (declared is not None and declared.numbers):
        for kind in kinds:
            try:
                return kind(text)
            except ValueError:
                continue
    return text


def _given(request: GenerateRequest) -> dict[str, Any]:
    """Return what a request states, by the form's names."""
    options, found = request.options, stated(request)
    weights = options.adapter_weights or (1.0,) * len(options.adapters)
    found["adapter"] = " ".join(f"{name}:{weight:g}" for name, weight in zip(options.adapters, weights, strict=True))
    weights = options.control_weights or (1.0,) * len(options.controls)
    controls = zip(options.controls, weights, options.control_images, strict=True)
    found["control"] = " ".join(f"{name}:{weight:g}={uri}" for name, weight, uri in controls)
    found["size"] = f"{options.width}x{options.height}" if options.width and options.height else ""
    return found


def values(context: Context) -> dict[str, Any]:
    """Return what the template shows beside the form: the request of the query, its end and its images."""
    tracked = context.view.requests.get(context.query.get("id", ""))
    return {
        "seen": tracked, "images": images_of(tracked, context) if tracked else [],
        "href": href(tracked.request_id) if tracked else "",
        "why": why(tracked.result) if tracked and tracked.result else "",
        "lost": lost_in_words(tracked, context) if tracked else "",
    }  # fmt: skip


def around(context: Context) -> dict[str, Any]:
    """Return the values of the form."""
    tracked = context.view.requests.get(context.query.get("id", ""))
    request = tracked.request if tracked else None
    prompt = request.prompt if request and context.is_clear else ""
    return {"fields": fields_of(context, request), "prompt": prompt}
