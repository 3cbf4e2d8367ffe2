"""Tables of Markdown, and JSON Schema in words."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

LIMITS: Final = {
    "minimum": "from {}", "exclusiveMinimum": "above {}", "maximum": "to {}", "exclusiveMaximum": "below {}",
    "multipleOf": "a multiple of {}", "maxLength": "at most {} characters",
}  # fmt: skip
PLAIN: Final = {"string": "text", "boolean": "true or false", "object": "table", "array": "list"}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table with an empty line before it; without rows nothing."""
    names, lines = tuple(head), [f"| {' | '.join(map(cell, row))} |\n" for row in rows]
    return f"\n| {' | '.join(names)} |\n{'|---' * len(names)}|\n{''.join(lines)}" if lines else ""


def cell(text: str) -> str:
    """A text as a cell: in one line, its bars escaped."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def fields(schema: Mapping[str, Any]) -> str:
    """Return the properties of a JSON Schema as a table."""
    required = schema.get("required", ())
    rows = (
        (
            f"`{name}`" + (" (required)" if name in required else ""),
            values(each),
            code(each["default"]) if each.get("default") not in (None, "", []) else "",
            each.get("description", ""),
        )
        for name, each in schema.get("properties", {}).items()
    )
    return table(("field", "values", "default", "what"), rows)


def values(schema: Mapping[str, Any]) -> str:
    """What a value of a JSON Schema may be, in words."""
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"] if each != "")
    kinds = [each.get("type", "") for each in schema.get("anyOf", [schema])]
    names = [name for kind in kinds for name in ([kind] if isinstance(kind, str) else kind) if name != "null"]
    said = [words.format(f"{schema[name]:,}") for name, words in LIMITS.items() if name in schema]
    return " ".join([" or ".join(PLAIN.get(name, name) for name in dict.fromkeys(names)), *said]).strip()


def code(value: Any) -> str:
    """A value as JSON, in a span of code."""
    return f"`{json.dumps(value, default=str)}`"
