"""Writes and reads report.json and the page beside it."""

import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from schemas.errors import PochadeError

VERSION = 1  # of the format: schemas/report.schema.json
KEYS = ("version", "trace", "setup", "policies", "baseline")  # that every reader needs
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
    missing = [key for key in KEYS if key not in report]
    if missing:
        raise InvalidReport(f"{file} is no report of `pochade simulate`: it has no {', '.join(missing)}")
    if report["version"] != VERSION:
        raise InvalidReport(
            f"{file} is a report of version {report['version']}, this is for {VERSION}: simulate it again"
        )
    policies = report["policies"]
    if not isinstance(policies, dict) or not policies:
        raise InvalidReport(f"{file} is no report: `policies` must be an object with at least one policy")
    for name, figures in policies.items():
        if not isinstance(figures, dict) or not isinstance(figures.get("by_seed"), dict):
            raise InvalidReport(f"{file} is no report: policy {name!r} has no `by_seed`")
