"""Parses a profile from JSON text: the file NAME.json that `pochade profile` wrote."""

from typing import Any, Final

from planner.catalog.curves import PairRow
from planner.catalog.profile import FORMAT, REMEASURE, RETRY_SWEEP, VERSION, Profile, SweptRow, check_profile
from planner.catalog.validate import require
from streams.parsing.closed import Source, check_batch_sizes, names_of, only, parsed_json, read

_PROVENANCE: Final = ("format", "created", "command", "machine", "versions", "notes")  # for people, of any form
_ROW: Final = names_of(PairRow)  # in the file these stand beside what a row rests on
_RESTS_ON: Final = tuple(name for name in names_of(SweptRow) if name != "row")


def parse(text: str, file: str) -> Profile:
    """Parse a profile from its JSON text; errors name `file`.

    Raises:
        Unknown: a key that is not known, with the nearest.
        InvalidCatalog: no JSON, another format, a missing key, a wrong type, an impossible value.
    """
    where = f"profile {file}"
    source = Source(where, REMEASURE, inlined=frozenset({"row"}))
    root = parsed_json(text, source)
    if isinstance(root, dict):
        require(root.get("format") == FORMAT, f"{where}: format", root.get("format"), str(FORMAT), REMEASURE)
        only(root, (*_PROVENANCE, *names_of(Profile)), where)
        root = {key: value for key, value in root.items() if key not in _PROVENANCE}
        _check_batches(root.get("levels"), f"{where}: levels")
        for name in root["judging_ms"] if isinstance(root.get("judging_ms"), dict) else ():
            check_batch_sizes(root["judging_ms"], name, f"{where}: judging_ms")
        if isinstance(root.get("settings"), dict):
            root["settings"] = _nested(root["settings"], f"{where}: settings")
    profile = read(Profile, root, source)
    check_profile(profile, where)
    return profile


def _check_batches(levels: Any, where: str) -> None:
    for name, level in levels.items() if isinstance(levels, dict) else ():
        for key in ("latency_ms", "spread_ms"):
            check_batch_sizes(level, key, f"{where}.{name}")


def _nested(table: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the swept table with each row's setting as a table of its own, as `SweptRow` has it."""
    require(table.get("version") == VERSION, f"{where}: version", table.get("version"), str(VERSION), RETRY_SWEEP)
    rows = table.get("rows", [])
    if not isinstance(rows, list):
        return table
    for at, row in enumerate(rows):
        only(row if isinstance(row, dict) else {}, (*_ROW, *_RESTS_ON), f"{where}.rows[{at}]")
    return table | {"rows": [_with_row(row) if isinstance(row, dict) else row for row in rows]}


def _with_row(row: dict[str, Any]) -> dict[str, Any]:
    known = {key: value for key, value in row.items() if key in _RESTS_ON}
    return known | {"row": {key: value for key, value in row.items() if key in _ROW}}
