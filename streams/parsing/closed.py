"""Reads closed tables of TOML or JSON into dataclasses and named tuples of `planner`, which do not know pydantic.

Every field has the type that its class states; a whole number will do for a float. A named tuple is a table, or an
array of its values in their order. A key that the class has no field for is an error, as are a missing key and a value
of another type; each says the path, the value, the limit and what to do. What a class refuses itself is raised as it
is.
"""

import dataclasses
import functools
import json
import sys
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import pydantic
from pydantic_core import ErrorDetails

from planner.catalog.validate import InvalidCatalog, require
from schemas.errors import PochadeError, Unknown
from schemas.wire_names import field_name

T = TypeVar("T")

CLOSED: Final = pydantic.ConfigDict(extra="forbid", strict=True, alias_generator=field_name)
UNKNOWN_KEY: Final = ("unexpected_keyword_argument", "extra_forbidden")  # of a dataclass, of a named tuple
LIMITS: Final = {
    "string_type": "a text", "int_type": "a whole number", "int_parsing": "a whole number", "float_type": "a number",
    "dict_type": "a table", "dataclass_type": "a table", "named_tuple_type": "a table, or an array of its values",
    "tuple_type": "an array",
}  # fmt: skip
MAX_SHOWN: Final = 200  # characters of a value in a message


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """The file that tables come from, for error messages."""

    where: str  # what the path begins with
    advice: str = "correct it"  # what to do about a value that is refused
    error: type[PochadeError] = InvalidCatalog
    inlined: frozenset[str] = frozenset()  # fields whose own fields stand in their place in the file


def read(kind: type[T], table: Any, source: Source) -> T:
    """Read a dataclass or named tuple from the values of TOML or JSON.

    Raises:
        Unknown: a key that `kind` has no field for, with the nearest that it has.
        source.error: a missing key or a value of the wrong type.
    """
    try:
        wanted: Any = kind
        _check_sizes(table, (), kind, source)
        (value,) = _adapter(wanted).validate_json(json.dumps([table], default=_as_array))
    except pydantic.ValidationError as refused:
        raise _readable(kind, min(refused.errors(include_url=False), key=_is_no_unknown_key), source) from None
    except RecursionError:
        raise source.error(f"{source.where} must not be nested without end; {source.advice}") from None
    return typing.cast(T, value)


def parsed_json(text: str, source: Source) -> Any:
    """Return the value of a JSON text. Raises the source's error for a text that is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as refused:
        raise source.error(f"{source.where} is not JSON: {refused}; {source.advice}") from None


def names_of(kind: Any) -> tuple[str, ...]:
    """Return the names that the fields of a dataclass or named tuple have in files, in their order."""
    return tuple(_fields(kind))


def only(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Raise Unknown for the first key of `table` that is not known."""
    names = list(known)
    for key in table:
        if key not in names:
            raise Unknown(f"key of {where}", key, names)


def check_batch_sizes(table: Any, key: str, where: str) -> None:
    """Raise InvalidCatalog unless `table`'s table at `key`, where it has one, is by batch size: keys are texts."""
    times = table.get(key) if isinstance(table, dict) else None
    for batch in times if isinstance(times, dict) else ():
        sized = batch.isdecimal() and batch.isascii()
        require(sized, f"{where}.{key}: a key", batch, "a batch size", "give a whole number of images")


@functools.cache
def _adapter(kind: Any) -> pydantic.TypeAdapter[Any]:
    """Return the adapter of one `kind` in an array, as a dataclass by itself would not take the configuration."""
    array: Any = types.GenericAlias(tuple, kind)
    return pydantic.TypeAdapter(array, config=CLOSED)


def _check_sizes(value: Any, place: tuple[int | str, ...], kind: Any, source: Source) -> None:
    """Raise the source's error for a whole number that no float reaches: it would be read as infinite."""
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        path, _ = _path(kind, place, source)
        raise source.error(f"{path} must be within {sys.float_info.max:.1g}: got {_shown(value)}; {source.advice}")
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        _check_sizes(item, (*place, name), kind, source)


def _as_array(value: object) -> list[str]:
    """Turn a date or time of TOML into a value that no field takes, as fields that take texts check these."""
    return [str(value)]


def _is_no_unknown_key(found: ErrorDetails) -> bool:
    """Sort key by which a misspelt key is reported before the key that is missing because of it."""
    return found["type"] not in UNKNOWN_KEY


def _readable(kind: type[Any], found: ErrorDetails, source: Source) -> PochadeError:
    place, problem = found["loc"][1:], found["type"]
    if problem in UNKNOWN_KEY:
        path, owner = _path(kind, place[:-1], source)
        return Unknown(f"key of {path}", str(place[-1]), names_of(owner))
    path, wanted = _path(kind, place, source)
    if problem == "missing":
        name = path.rpartition(".")[2].rpartition(" ")[2]
        return source.error(f"{path} must be given: got None; add `{name} = ...`")
    if problem == "json_invalid":  # nested deeply, or half a surrogate pair
        return source.error(f"{path} cannot be read: {found['msg']}; {source.advice}")
    limit = f"at most {len(names_of(wanted))} values" if problem == "too_long" else LIMITS.get(problem, found["msg"])
    return source.error(f"{path} must be {limit}: got {_shown(found['input'])}; {source.advice}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _path(kind: Any, place: Sequence[int | str], source: Source) -> tuple[str, Any]:
    """Return the path of a place as the file's writer would name it, and the type that is wanted there."""
    path = ""
    for part in place:
        if part == "[key]":  # of a table: its path is reported, the value is the key
            continue
        kind, name = _inner(kind, part)
        if name not in source.inlined:
            path += f"[{name}]" if isinstance(name, int) else f".{name}"
    return f"{source.where}: {path.removeprefix('.')}" if path else source.where, _wanted(kind)


def _inner(kind: Any, part: int | str) -> tuple[Any, int | str]:
    """Return the type of the value at a key or number of a `kind`, and its name: a value of a named tuple has one."""
    wanted = _wanted(kind)
    fields = _fields(wanted)
    if fields:
        name = list(fields)[part] if isinstance(part, int) else part
        return fields.get(name, Any), name
    inner = [each for each in typing.get_args(wanted) if each is not ...]
    return inner[-1] if inner else Any, part


def _wanted(kind: Any) -> Any:
    """Return the wanted type: of `X | None` that is X."""
    if isinstance(kind, types.UnionType):
        return next(each for each in typing.get_args(kind) if each is not types.NoneType)
    return kind


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    """Return name in files -> type of each field of a dataclass or named tuple; {} for another type."""
    if not isinstance(kind, type) or not (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        return {}
    return {field_name(attribute): hint for attribute, hint in typing.get_type_hints(kind).items()}
