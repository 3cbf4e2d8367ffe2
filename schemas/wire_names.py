"""The names on the wire that differ from the names in Python: the one table of both.

Names on the wire never change: records that were written years ago are read, and other programs know them. Code may
still be called after the field's terms. The table holds for Avro and for every JSON object that is made of a message.
"""

from collections.abc import Mapping
from typing import Any, Final

RECORDS: Final[Mapping[str, str]] = {"GenerateOptions": "PaintOptions", "Stage": "Step"}  # Python class -> Avro record
FIELDS: Final[Mapping[str, str]] = {  # Python field -> field of any record
    "generate_ms": "paint_ms",
    "generated": "painted",
    "generated_ms": "painted_ms",
    "refine_from_step": "paint_over_step",
}
_CLASSES: Final = {wire: name for name, wire in RECORDS.items()}
_ATTRIBUTES: Final = {wire: name for name, wire in FIELDS.items()}


def record_name(class_name: str) -> str:
    """The Avro record of a message class."""
    return RECORDS.get(class_name, class_name)


def field_name(attribute: str) -> str:
    """The field on the wire of a message's attribute."""
    return FIELDS.get(attribute, attribute)


def with_documented_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message's values with the documented names beside those of the wire: generate_ms beside paint_ms."""
    return {**values} | {name: values[wire] for name, wire in FIELDS.items() if wire in values}


def in_python_names(schema: Any) -> Any:
    """An Avro schema with the names of the Python classes and attributes; the bytes that it describes are the same.

    Avro's bytes hold no names, so a record is written from a message's attributes, and read into them, at no cost.
    """
    if isinstance(schema, list):
        return [in_python_names(branch) for branch in schema]
    if isinstance(schema, str):
        namespace, dot, name = schema.rpartition(".")
        return f"{namespace}{dot}{_CLASSES.get(name, name)}"
    renamed = dict(schema)
    if "fields" in schema:
        renamed["name"] = _CLASSES.get(schema["name"], schema["name"])
        renamed["fields"] = [_python_field(field) for field in schema["fields"]]
    for part in ("items", "values"):
        if part in schema:
            renamed[part] = in_python_names(schema[part])
    if not isinstance(schema["type"], str):
        renamed["type"] = in_python_names(schema["type"])
    return renamed


def _python_field(field: Mapping[str, Any]) -> dict[str, Any]:
    name, default = field["name"], field.get("default")
    renamed = {**field, "name": _ATTRIBUTES.get(name, name), "type": in_python_names(field["type"])}
    if isinstance(default, Mapping):
        renamed["default"] = {_ATTRIBUTES.get(key, key): value for key, value in default.items()}
    return renamed
