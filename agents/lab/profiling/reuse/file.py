"""The measurements of caching into the JSON of a profile, a row a line."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from planner.catalog.caching import VERSION, CachingMeasurement
from streams.parsing.profile import parse

_LINE: Final = 220  # characters


def with_caching(text: str, found: Mapping[str, CachingMeasurement], file: str) -> str:
    """Return a profile's JSON with the levels' measurements in `caching`, in place of older ones of these levels.

    Measurements of another version are left out: readers refuse them.
    """
    document = json.loads(text)
    before = {level: each for level, each in document.pop("caching", {}).items() if each.get("version") == VERSION}
    cached = before | {level: _plain(asdict(profile)) for level, profile in found.items()}
    written = f"{json.dumps(document, indent=1)[:-2]},\n{_lines('caching', cached, 1)}\n}}\n"
    read = parse(written, file).caching
    assert {level: read[level] for level in found} == dict(found), "measurements must be readable as they were written"
    return written


def without_caching(text: str) -> str:
    """Return a profile's JSON without `caching`, which may be of another version."""
    document = json.loads(text)
    return json.dumps({key: value for key, value in document.items() if key != "caching"})


def _plain(value: Any) -> Any:
    """JSON values: named tuples of figures are arrays, of the rest tables."""
    if hasattr(value, "_asdict"):
        fields = value._asdict()
        return list(value) if all(isinstance(each, float) for each in value) else _plain(fields)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value


def _lines(name: str, value: Any, depth: int) -> str:
    """Return JSON lines: values that fit on one line, others with a part a line."""
    indent, label = " " * depth, f"{json.dumps(name)}: " if name else ""
    line = f"{indent}{label}{json.dumps(value)}"
    if len(line) <= _LINE or not isinstance(value, dict | list):
        return line
    named = value.items() if isinstance(value, dict) else (("", each) for each in value)
    inner = ",\n".join(_lines(key, each, depth + 1) for key, each in named)
    opened, closed = "{}" if isinstance(value, dict) else "[]"
    return f"{indent}{label}{opened}\n{inner}\n{indent}{closed}"
