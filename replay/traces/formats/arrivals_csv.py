"""Arrival CSVs: a header with `arrival_ms`, and, where known, columns of the fields that JSON lines have too."""

from typing import Final

from replay.traces.formats.building import Builder
from replay.traces.formats.csv_rows import Table
from replay.traces.formats.faults import Faults
from replay.traces.formats.fields import Unfit, number, share, whole
from replay.traces.trace import InvalidTrace, Overrides, Row
from schemas.errors import Unknown
from schemas.messages import GenerateOptions

COLUMN: Final = "arrival_ms"
COLUMNS: Final = (COLUMN, "prompt", "prompt_index", "model", "adapters", "steps", "n", "tier", "slack_ms", "hardness")


def is_arrivals(columns: tuple[str, ...]) -> bool:
    """Whether this is the format of a file with these columns."""
    return COLUMN in columns


def read_arrivals(table: Table, faults: Faults, builder: Builder, most: int | None) -> None:
    """Read every row, or the first `most`. Raises InvalidTrace."""
    unknown = [name for name in table.columns if name not in COLUMNS]
    if unknown or len(set(table.columns)) < len(table.columns):
        message = Unknown("column", unknown[0], COLUMNS) if unknown else "a column is named twice"
        raise InvalidTrace(f"{faults.source}:{table.line}: {message}")
    is_plain = table.columns == (COLUMN,)
    for where, fields in table.rows:
        if most is not None and len(builder) >= most:
            return
        try:
            row = Row(number(fields[COLUMN], "milliseconds")) if is_plain else _row(fields)
        except Unfit as fault:
            faults.found(where, fault.kind, str(fault))
        else:
            builder.add(row, where)


def _row(fields: dict[str, str]) -> Row:
    given = {name: text for name, text in fields.items() if text}
    options = GenerateOptions(
        n=whole(given["n"], "images", 1) if "n" in given else GenerateOptions().n,
        steps=whole(given["steps"], "steps", 1) if "steps" in given else None,
        model=given.get("model", ""),
        adapters=tuple(given.get("adapters", "").split()),
    )
    return Row(
        arrival_ms=number(fields[COLUMN], "milliseconds"),
        prompt=given.get("prompt"),
        prompt_index=whole(given["prompt_index"], "a prompt's place") if "prompt_index" in given else None,
        wish=Overrides(options=options, tier=given.get("tier", Overrides().tier)),
        slack_ms=number(given["slack_ms"], "milliseconds") if "slack_ms" in given else None,
        hardness=share(given["hardness"], "hardness") if "hardness" in given else None,
    )
