"""Arrival CSVs: a header with `arrival_ms` or `time`, and, where known, columns of what JSON lines have too."""

from collections.abc import Mapping
from typing import Final

from replay.traces.formats.building import Builder
from replay.traces.formats.csv_rows import Table
from replay.traces.formats.faults import Faults
from replay.traces.formats.fields import Unfit, formatted_ms, moment_ms, number, share, since_1970_ms, whole
from replay.traces.trace import InvalidTrace, Overrides, Row
from schemas.errors import Unknown
from schemas.messages import GenerateOptions
from schemas.vocabulary import ALIASES

COLUMN: Final = "arrival_ms"
TIME: Final = "time"  # since 1970: ISO 8601, seconds or milliseconds
COLUMNS: Final = (
    COLUMN,
    TIME,
    "prompt",
    "prompt_index",
    "model",
    "adapters",
    "steps",
    "n",
    "tier",
    "slack_ms",
    "hardness",
)


def in_our_names(table: Table, names: Mapping[str, str]) -> Table:
    """Return a table with the columns of `names` under our names; other columns are passed over unless they are ours.

    Raises:
        Unknown: a column of `names` that the table does not have.
    """
    names = {name.lower(): ours for name, ours in names.items()}
    if absent := names.keys() - {*table.columns}:
        raise Unknown("column", min(absent), table.columns)
    clashing = {*names.values(), *((COLUMN, TIME) if TIME in names.values() else ())}
    ours = {name: name for name in table.columns if name in COLUMNS and name not in clashing} | names
    rows = ((line, {ours[name]: text for name, text in fields.items() if name in ours}) for line, fields in table.rows)
    return Table(tuple(ours.values()), table.line, rows)


def is_arrivals(columns: tuple[str, ...]) -> bool:
    """Whether this is the format of a file with these columns."""
    return (COLUMN in columns) != (TIME in columns)


def read_arrivals(table: Table, faults: Faults, builder: Builder, most: int | None, time_format: str = "") -> None:
    """Read every row, or the first `most`. `time_format`: as `Asked` has it. Raises InvalidTrace."""
    unknown = [name for name in table.columns if name not in COLUMNS]
    if unknown or len(set(table.columns)) < len(table.columns):
        message = Unknown("column", unknown[0], COLUMNS, ALIASES) if unknown else "a column is named twice"
        raise InvalidTrace(f"{faults.source}:{table.line}: {message}")
    is_plain = table.columns == (COLUMN,)
    for where, fields in table.rows:
        if most is not None and len(builder) >= most:
            return
        try:
            row = Row(_since_start_ms(fields[COLUMN])) if is_plain else _row(fields, time_format)
        except Unfit as fault:
            faults.found(where, fault.kind, str(fault))
        else:
            builder.add(row, where)


def _row(fields: dict[str, str], time_format: str) -> Row:
    given = {name: text for name, text in fields.items() if text}
    options = GenerateOptions(
        n=whole(given["n"], "images", 1) if "n" in given else GenerateOptions().n,
        steps=whole(given["steps"], "steps", 1) if "steps" in given else None,
        model=given.get("model", ""),
        adapters=tuple(given.get("adapters", "").split()),
    )
    return Row(
        arrival_ms=_time_ms(fields[TIME], time_format) if TIME in fields else _since_start_ms(fields[COLUMN]),
        prompt=given.get("prompt"),
        prompt_index=whole(given["prompt_index"], "a prompt's place") if "prompt_index" in given else None,
        wish=Overrides(options=options, tier=given.get("tier", Overrides().tier)),
        slack_ms=number(given["slack_ms"], "milliseconds") if "slack_ms" in given else None,
        hardness=share(given["hardness"], "hardness") if "hardness" in given else None,
    )


def _time_ms(text: str, time_format: str) -> float:
    return formatted_ms(text, time_format) if time_format else since_1970_ms(text)


def _since_start_ms(text: str) -> float:
    try:
        return number(text, "milliseconds")
    except Unfit as fault:
        try:
            moment_ms(text)
        except Unfit:
            raise fault from None
        raise Unfit(fault.kind, f"{fault}; give --time-column {COLUMN} for times since 1970") from None
