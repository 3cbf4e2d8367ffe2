"""The other names by which JSON, forms and commands state the fields of a request, and how each is read.

They are declared with the fields (`messages.py`: `aliases`). Most are another word for the same; four have a form:

| alias | form | states |
|---|---|---|
| `size` | "768x512" | `width`, `height` |
| `adapter` | "candy", "candy:0.8", or a list of these | `adapters`, `adapter_weights` |
| `control` | "outline=URI", "outline:0.5=URI", or a list of these | `controls`, `control_images`, `control_weights` |
| `deadline_in_ms` | ms from the request's `created_ms` on | `deadline_ms` |

The items of `adapters` and `controls` may be NAME:WEIGHT, too: no component's name has a colon.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from schemas.errors import InvalidRequest
from schemas.messages import GenerateOptions, GenerateRequest
from schemas.option_fields import Declared, options_of

DECLARED: Final[Mapping[str, Declared]] = {**options_of(GenerateRequest), **options_of(GenerateOptions)}
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {  # alias -> the fields that it names
    alias: tuple(name for name, each in DECLARED.items() if alias in each.about.aliases)
    for declared in DECLARED.values()
    for alias in declared.about.aliases
}
WEIGHTS: Final = {"adapters": "adapter_weights", "controls": "control_weights"}  # names -> their weights
SIZE: Final = re.compile(r"([1-9][0-9]{0,5})x([1-9][0-9]{0,5})")
TEXTS: Final = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {  # of the aliases that have a form
    "size": {"type": "string", "description": "WIDTHxHEIGHT in px, such as 768x512: `width` and `height`."},
    "adapter": TEXTS | {"description": "NAME or NAME:WEIGHT, or several: `adapters` and `adapter_weights`."},
    "control": TEXTS | {"description": "NAME=URI or NAME:WEIGHT=URI, or several: `controls` and what goes with them."},
    "deadline_in_ms": {"type": "integer", "minimum": 1, "description": "ms from now on, instead of `deadline_ms`."},
}


def in_own_words(given: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """Return a request's fields by their own names, as `GenerateRequest` and `GenerateOptions` have them.

    Values and unknown names are left to the check of the fields. `now_ms`: from when `deadline_in_ms` counts where no
    `created_ms` is stated.

    Raises:
        InvalidRequest: a field is stated twice, by an alias as well, or an alias does not have its form.
    """
    created_ms = given.get("created_ms")
    made_ms = created_ms if isinstance(created_ms, int) else now_ms
    fields = {name: value for name, value in given.items() if name not in ALIASES}
    for alias in (name for name in given if name in ALIASES):
        own = ALIASES[alias]
        stated = READ[alias](given[alias], made_ms) if alias in READ else {own[0]: given[alias]}
        _add(fields, stated, alias, own)
    for names, weights in WEIGHTS.items():
        if any(isinstance(item, str) and ":" in item for item in _items(fields.get(names))):
            stated = _weighted(fields.pop(names), names)
            _add(fields, stated, names, (weights,))
    return fields


def as_stated(error: InvalidRequest, given: Iterable[str]) -> InvalidRequest:
    """Return an error of a request that names the field by the alias among `given` that states it, if there is one."""
    alias = next((name for name in given if error.field in ALIASES.get(name, ())), "")
    if not alias:
        return error
    fault = f"{alias}: {error.fault}" if alias in READ else re.sub(rf"\b{error.field}\b", alias, error.fault, count=1)
    return InvalidRequest(fault, field=alias, command=error.command)


def aliased(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schemas of a request's fields with those of their aliases."""
    found = {alias: own[0] for alias, own in ALIASES.items() if own[0] in properties}
    return {**properties} | {
        alias: SCHEMAS.get(alias) or {**properties[own], "description": f"The same as `{own}`."}
        for alias, own in found.items()
        if alias not in properties
    }


def _add(fields: dict[str, Any], stated: Mapping[str, Any], alias: str, own: tuple[str, ...]) -> None:
    for name in (*own, *stated):
        if fields.get(name) is not None:
            raise InvalidRequest(f"{alias} states {name}, which is there as well: give one of them", field=alias)
    fields |= stated


def _items(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else value if isinstance(value, list) else []


def _size(value: Any, _: int) -> dict[str, Any]:
    found = SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidRequest(f"size must be WIDTHxHEIGHT in px, such as 768x512: got {value!r:.80}", field="size")
    return {"width": int(found[1]), "height": int(found[2])}


def _adapter(value: Any, _: int) -> dict[str, Any]:
    return _weighted(_items(value) or value, "adapters", "adapter")


def _control(value: Any, _: int) -> dict[str, Any]:
    parts = [item.partition("=") if isinstance(item, str) else ("", "", "") for item in _items(value)]
    if not parts or not all(name and uri for name, _, uri in parts):
        fault = f"control must be NAME=URI or NAME:WEIGHT=URI, with the URI of a stored image: got {value!r:.80}"
        raise InvalidRequest(fault, field="control", command="`pochade put FILE` prints one")
    return _weighted([name for name, _, _ in parts], "controls", "control") | {
        "control_images": [uri for _, _, uri in parts]
    }


def _weighted(items: Any, names: str, stated_as: str = "") -> dict[str, Any]:
    """Return the fields of a list of NAME or NAME:WEIGHT; what is none is left as it is."""
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        return {names: items}
    parts = [item.rpartition(":") if ":" in item else (item, "", "1") for item in items]
    try:
        weights = [float(weight) for *_, weight in parts]
    except ValueError:
        field = stated_as or names
        fault = f"{field} must be NAME or NAME:WEIGHT with a number, such as candy:0.8: got {items!r:.80}"
        raise InvalidRequest(fault, field=field) from None
    fields: dict[str, Any] = {names: [name for name, *_ in parts]}
    return fields | ({WEIGHTS[names]: weights} if any(":" in item for item in items) else {})


def _deadline_in(value: Any, created_ms: int) -> dict[str, Any]:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        fault = f"deadline_in_ms must be a whole number of ms from now on, 1 or more: got {value!r:.80}"
        raise InvalidRequest(fault, field="deadline_in_ms")
    return {"deadline_ms": None if value is None else created_ms + value}


READ: Final[Mapping[str, Callable[[Any, int], dict[str, Any]]]] = {
    "size": _size,
    "adapter": _adapter,
    "control": _control,
    "deadline_in_ms": _deadline_in,
}
