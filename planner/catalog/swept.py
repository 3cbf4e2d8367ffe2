"""The offline table of a catalog's cascades, as `pochade profile` sweeps it from the prompts it measured.

Source: HADIS 3.2, lookup-table construction: thresholds of router and discriminator for each pair, the rows kept that
no other beats. Ours: the step from which heavy paints over the draft, quality by hardness band, and intervals.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from planner.catalog.curves import PairRow, check_row
from planner.catalog.validate import by_band, only, read, require, typed

VERSION = 1
_AGAIN = "sweep again with `pochade profile cascades`"


class SweptRow(NamedTuple):
    """A row of the table with what it rests on."""

    row: PairRow
    low: float  # of the two-sided 95 % interval of its quality
    high: float
    prompts: int  # of the smallest of its parts: kept, painted again, straight to heavy


@dataclass(frozen=True, kw_only=True)
class SweptTable:
    """The rows that no other beats, the cheapest first."""

    version: int = VERSION  # rises when a reader must change
    created: str = ""  # when and by which command, for people
    command: str = ""
    prompts: int  # that the rows were chosen and judged on
    resamples: int
    seed: int
    sure: float  # standard errors of the difference by which a row beats every cheaper one
    optimism: float | None  # of rows chosen on half of the prompts: by how much the other half falls short
    rows: tuple[SweptRow, ...]


def parse_swept(value: Any, where: str, bands: int) -> SweptTable:
    """From JSON values; `bands`: of hardness, of the profile.

    Raises Unknown for a key that is not known, InvalidCatalog for another version or an impossible value.
    """
    table = dict(typed(value, (dict,), where))
    require(table.get("version") == VERSION, f"{where}: version", table.get("version"), str(VERSION), _AGAIN)
    items = typed(table.get("rows", []), (list,), f"{where}: rows")
    return read(
        SweptTable, table | {"rows": tuple(_row(r, f"{where}[{at}]", bands) for at, r in enumerate(items))}, where
    )


def _row(value: Any, where: str, bands: int) -> SweptRow:
    table: Mapping[str, Any] = typed(value, (dict,), where)
    only(table, (*PairRow._fields, "low", "high", "prompts"), where)
    quality = by_band(table.get("quality_by_band", []), f"{where}: quality_by_band", bands, _AGAIN)
    own = {key: table[key] for key in PairRow._fields if key in table} | {"quality_by_band": quality}
    row = read(PairRow, own, where)
    check_row(row)
    figures = {key: typed(table.get(key), (int, float), f"{where}: {key}") for key in ("low", "high", "prompts")}
    return SweptRow(row, float(figures["low"]), float(figures["high"]), int(figures["prompts"]))
