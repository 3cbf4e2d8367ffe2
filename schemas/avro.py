"""Avro from the message dataclasses: a derived schema a type, values to dicts (back: `streams/codec/avro.py`).

The dataclass is the only truth; `schemas/registry.json` records what was ever written (see `registry.py`), and
`wire_names.py` how a class or a field is called there.
"""

import dataclasses
import functools
import operator
import types
import typing
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol, cast

from schemas.wire_names import field_name, record_name

NAMESPACE = "pochade"


class Message(Protocol):
    """Protocol of any dataclass of `messages.py`."""

    __dataclass_fields__: typing.ClassVar[dict[str, Any]]


Convert = Callable[[Any], Any]


def subject_of(kind: type[Message]) -> str:
    """The registry subject: RecordName strategy, because one record goes to several job topics."""
    return f"{NAMESPACE}.{record_name(kind.__name__)}"


def avro_schema(kind: type[Message]) -> dict[str, Any]:
    """The Avro schema of a message type, nested records defined where they are first used."""
    return cast(dict[str, Any], _record(kind, set()))


def _record(kind: type[Message], defined: set[str]) -> Any:
    name = subject_of(kind)
    if name in defined:
        return name
    defined.add(name)
    hints = typing.get_type_hints(kind)
    fields = []
    for field in dataclasses.fields(cast(Any, kind)):
        entry: dict[str, Any] = {"name": field_name(field.name), "type": _type(hints[field.name], defined)}
        if field.default is not dataclasses.MISSING:
            entry["default"] = _default(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            entry["default"] = field.default_factory()
        fields.append(entry)
    return {"type": "record", "name": record_name(kind.__name__), "namespace": NAMESPACE, "fields": fields}


def _default(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_wire(cast(type[Message], type(value)))(value)
    return list(value) if isinstance(value, tuple) else value


def _type(hint: Any, defined: set[str]) -> Any:
    primitives: dict[Any, str] = {str: "string", int: "long", float: "double", bool: "boolean", bytes: "bytes"}
    if hint in primitives:
        return primitives[hint]
    if dataclasses.is_dataclass(hint):
        return _record(cast(type[Message], hint), defined)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return "string"  # a reader that does not know a new symbol still reads the record
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return {"type": "array", "items": _type(arguments[0], defined)}
    if origin is dict:
        return {"type": "map", "values": _type(arguments[1], defined)}
    if origin in (types.UnionType, typing.Union):
        return ["null", *(_type(a, defined) for a in arguments if a is not types.NoneType)]
    raise TypeError(f"no Avro type for {hint!r}: messages use str, int, float, bool, tuples, dicts and each other")


def to_avro(kind: type[Message]) -> Convert:
    """A function from a message of this type to the dict that fastavro writes by `wire_names.in_python_names`."""
    return _to_dict(kind, False)


def to_wire(kind: type[Message]) -> Convert:
    """A function from a message of this type to a dict with the names on the wire, as JSON has it."""
    return _to_dict(kind, True)


@functools.cache
def _to_dict(kind: type[Message], is_wire: bool) -> Convert:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(cast(Any, kind))]
    values_of = operator.attrgetter(*names, names[0])  # of a single name it would give no tuple
    keys = {name: field_name(name) if is_wire else name for name in names}
    converts = [(keys[name], convert) for name in names if (convert := _out(hints[name], is_wire)) is not None]
    ordered = list(keys.values())

    def record_of(value: Any) -> dict[str, Any]:
        record = dict(zip(ordered, values_of(value), strict=False))
        for name, convert in converts:
            record[name] = convert(record[name])
        return record

    return record_of


def _out(hint: Any, is_wire: bool) -> Convert | None:
    """None: the value stays as it is."""
    if dataclasses.is_dataclass(hint):
        return _to_dict(cast(type[Message], hint), is_wire)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        item = _out(arguments[0], is_wire)
        return list if item is None else _each(item)
    if origin in (types.UnionType, typing.Union):
        item = _out(next(a for a in arguments if a is not types.NoneType), is_wire)
        return None if item is None else _unless_none(item)
    return None


def _each(item: Convert) -> Convert:
    return lambda values: [item(value) for value in values]


def _unless_none(item: Convert) -> Convert:
    return lambda value: None if value is None else item(value)
