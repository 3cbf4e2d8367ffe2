"""JSON Schema of the message dataclasses, for documents that describe them to clients who write or read JSON."""

import dataclasses
import types
import typing
from collections.abc import Container
from enum import StrEnum
from typing import Any, cast

from schemas.avro import Message, to_wire
from schemas.option_fields import KEY, Option
from schemas.wire_names import field_name

PRIMITIVES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def properties_of(kind: type[Message], without: Container[str] = ()) -> dict[str, Any]:
    """Field -> its JSON Schema, by the names on the wire, for all fields but some."""
    hints = typing.get_type_hints(kind)
    return {
        field_name(field.name): _described(schema_of(hints[field.name]), field)
        for field in dataclasses.fields(cast(Any, kind))
        if field.name not in without
    }


def schema_of(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a field's type. Raises TypeError for one that no message has."""
    if hint in PRIMITIVES:
        return {"type": PRIMITIVES[hint]}
    if dataclasses.is_dataclass(hint):
        return {"type": "object", "properties": properties_of(cast(type[Message], hint))}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"type": "string", "enum": [each.value for each in hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if origin in (types.UnionType, typing.Union):
        own = schema_of(next(each for each in arguments if each is not types.NoneType))
        return {"anyOf": [own, {"type": "null"}]}
    raise TypeError(f"no JSON Schema for {hint!r}: messages use str, int, float, bool, tuples, dicts and each other")


def _of_option(schema: dict[str, Any], about: Option, default: Any) -> dict[str, Any]:
    limits: dict[str, Any] = {"enum": list(dict.fromkeys((default, *about.words)))} if about.words else {}
    if about.low is not None:
        limits["exclusiveMinimum" if about.is_above_low else "minimum"] = about.low
    if about.high is not None:
        limits["maximum"] = about.high
    if about.multiple_of > 1:
        limits["multipleOf"] = about.multiple_of
    if about.longest:
        limits["maxLength"] = about.longest
    if "items" in schema:
        schema, limits = {**schema, "items": schema["items"] | limits}, {}
    return schema | limits | {"description": about.help}


def _described(schema: dict[str, Any], field: "dataclasses.Field[Any]") -> dict[str, Any]:
    if KEY in field.metadata:
        schema = _of_option(schema, field.metadata[KEY], field.default)
    if field.default is dataclasses.MISSING:
        return schema
    default: Any = field.default
    if dataclasses.is_dataclass(default):
        default = to_wire(cast(type[Message], type(default)))(default)
    return schema | {"default": list(default) if isinstance(default, tuple) else default}
