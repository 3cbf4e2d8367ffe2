"""Writes and reads report.json and the page beside it."""

import importlib.resources
import itertools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from schemas.errors import PochadeError

VERSION = 1  # of the format: schemas/report.schema.json
MAX_FAULTS = 5  # that are named
PAIRED = ("plans", "quality", "fid")  # figures that the page takes seed by seed, where they are known
KINDS = {
    dict: ["object"], list: ["array"], str: ["string"], bool: ["boolean"], type(None): ["null"],
    int: ["integer", "number"], float: ["integer", "number"],
}  # fmt: skip
JSON_NAME, PAGE_NAME = "report.json", "report.html"


class InvalidReport(PochadeError):
    """A file that is no report of ours, or of another version."""


def text_of(report: Mapping[str, Any]) -> str:
    """The report as it is written: a series on one line. The same report makes the same bytes."""
    text = json.dumps(report, indent=1, allow_nan=False)
    return re.sub(r'\[\n[^][{}"]*\]', lambda found: "[" + " ".join(found[0][1:-1].split()) + "]", text) + "\n"


def write(report: Mapping[str, Any], folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Write report.json and report.html to a folder, which is created. Raises PochadeError where this fails."""
    from replay.reports.page.render import render  # draws: half a second to load

    write_text(folder / JSON_NAME, text_of(report))
    write_text(folder / PAGE_NAME, render(report))
    return folder / JSON_NAME, folder / PAGE_NAME


def write_text(path: pathlib.Path, text: str) -> None:
    """Write one file of a report to a folder, which is created. Raises PochadeError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise PochadeError(f"the report cannot be written to {path}: {error.strerror}; choose another folder") from None


def read(path: pathlib.Path) -> dict[str, Any]:
    """A report, from its file or its folder. Raises InvalidReport with what is wrong."""
    file = path / JSON_NAME if path.is_dir() else path
    try:
        report = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise InvalidReport(f"no report at {file}: make one with `pochade simulate TRACE ... --report DIR`") from None
    except OSError as error:
        raise InvalidReport(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError
        raise InvalidReport(f"{file} is no report: not JSON ({error})") from None
    _check(report, file)
    return dict(report)


def _check(report: object, file: pathlib.Path) -> None:
    if not isinstance(report, dict):
        raise InvalidReport(f"{file} is no report: an object was expected, got {type(report).__name__}")
    if (version := report.get("version", VERSION)) != VERSION:
        raise InvalidReport(f"{file} is a report of version {version}, this is for {VERSION}: simulate it again")
    schema = json.loads(importlib.resources.files("schemas").joinpath("report.schema.json").read_text("utf-8"))
    lacks = list(itertools.islice(_lacking(report, schema, "", schema["$defs"]), MAX_FAULTS)) or [
        f"policies.{name}.by_seed.{key}"
        for name, figures in report["policies"].items()
        for key in PAIRED
        if figures[key] is not None and key not in figures["by_seed"]
    ]
    if lacks:
        raise InvalidReport(f"{file} is no report of `pochade simulate`: it has no {', '.join(lacks)}")
    if not report["policies"]:
        raise InvalidReport(f"{file} is no report: `policies` must be an object with at least one policy")


def _lacking(value: Any, schema: Mapping[str, Any], name: str, parts: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a value lacks that its schema requires, or has as another type. `parts`: schemas that it refers to."""
    schema = parts[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    types = schema.get("type", KINDS[type(value)])
    if not any(kind in types for kind in KINDS[type(value)]):
        yield f"{name} as {types if isinstance(types, str) else ' or '.join(types)}"
    elif isinstance(value, dict):
        path = f"{name}." if name else ""
        yield from (f"{path}{key}" for key in schema.get("required", ()) if key not in value)
        others = schema.get("additionalProperties")
        for key, each in value.items():
            own = schema.get("properties", {}).get(key, others if isinstance(others, dict) else {})
            yield from _lacking(each, own, f"{path}{key}", parts)
    elif isinstance(value, list):
        for each in value:
            yield from _lacking(each, schema.get("items", {}), name, parts)
