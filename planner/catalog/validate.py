"""Closed TOML tables into frozen dataclasses: an unknown, missing or wrongly typed key is an error that says where."""

import dataclasses
import math
import sys
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from schemas.errors import PochadeError, Unknown
from schemas.wire_names import field_name

T = TypeVar("T")

SCALARS: dict[Any, tuple[type, ...]] = {
    str: (str,), int: (int,), int | None: (int,), float: (int, float), float | None: (int, float),
}  # fmt: skip
WORDS: dict[type, str] = {dict: "a table", list: "an array", str: "a text", int: "a whole number", float: "a number"}


class InvalidCatalog(PochadeError):
    """A catalog that cannot be planned with: what, the value, the limit and what to do."""


def require(holds: bool, what: str, value: object, limit: str, advice: str) -> None:
    """Raise InvalidCatalog with the four parts of its message, unless `holds`."""
    if not holds:
        raise InvalidCatalog(f"{what} must be {limit}: got {value!r}; {advice}")


def is_amount(value: float) -> bool:
    """Finite and not negative."""
    return math.isfinite(value) and value >= 0


def is_share(value: float) -> bool:
    """In [0, 1]; NaN is not."""
    return 0 <= value <= 1


def read(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """A dataclass or named tuple from a TOML table; values that are no scalars must have been converted before.

    Raises:
        Unknown: a key that `kind` has no field for, with the nearest that it has.
        InvalidCatalog: a missing key, a value of the wrong type, or what `kind` itself refuses.
    """
    hints = typing.get_type_hints(kind)
    attributes = {field_name(attribute): attribute for attribute in hints}
    only(table, attributes, where)
    optional = _optional(kind)
    for name, attribute in attributes.items():
        require(name in table or attribute in optional, f"{where}: {name}", None, "given", f"add `{name} = ...`")
        if name in table and hints[attribute] in SCALARS:
            typed(table[name], SCALARS[hints[attribute]], f"{where}: {name}")
    return kind(**{attributes[name]: value for name, value in table.items()})


def _optional(kind: type[Any]) -> set[str]:
    """The fields of a dataclass or named tuple that may be left out."""
    if not dataclasses.is_dataclass(kind):
        return set(kind._field_defaults)
    return {
        field.name
        for field in dataclasses.fields(kind)
        if not (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING)
    }


def rows(kind: type[T], value: Any, where: str, known: Mapping[str, Any] | None = None) -> tuple[T, ...]:
    """`kind`s from a TOML array whose items are tables, or arrays of the fields in their order.

    `known` are fields that all of them share and that the items leave out. Raises as `read` does.
    """
    shared = known or {}
    names = [field_name(attribute) for attribute in typing.get_type_hints(kind) if field_name(attribute) not in shared]
    found = []
    for at, item in enumerate(typed(value, (list,), where)):
        if isinstance(item, list):
            require(len(item) <= len(names), f"{where}[{at}]", item, f"at most {len(names)} values", "shorten it")
            item = dict(zip(names, item, strict=False))
        found.append(read(kind, {**typed(item, (dict,), f"{where}[{at}]"), **shared}, f"{where}[{at}]"))
    return tuple(found)


def only(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Raise Unknown for the first key of `table` that is not known."""
    names = list(known)
    for key in table:
        if key not in names:
            raise Unknown(f"key of {where}", key, names)


def typed(value: Any, kinds: tuple[type, ...], where: str) -> Any:
    """The value, if it has one of the types; else InvalidCatalog."""
    right = isinstance(value, kinds) and not isinstance(value, bool)
    if right and float in kinds:
        right = not isinstance(value, int) or abs(value) <= sys.float_info.max  # JSON and TOML have larger ones
    require(right, where, value, WORDS[kinds[-1]], "correct it")
    return value


def by_band(value: Any, where: str, bands: int, hint: str) -> tuple[float | None, ...]:
    """An array with a number, or none, for each band of hardness; empty where nothing is known by band."""
    found = typed(value, (list,), where)
    require(len(found) in (0, bands), where, found, f"of {bands} bands", hint)
    return tuple(None if number is None else float(typed(number, (int, float), where)) for number in found)
