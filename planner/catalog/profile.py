"""What `pochade profile` measured of a catalog: the values that planning and simulation reckon with.

A profile is two files (infra/profiles): NAME.json, read here by `parse`, and NAME-quality.npz, the prompt by prompt
outcomes, read by `prompt_table`. Hardness bands are the pieces between two neighbours of `bands`. What planning by
prompt rests on is `Measured`, which `planner.catalog.evidence` makes of both files.

The offline table of a catalog's cascades is part of it (`SweptTable`), as `pochade profile` sweeps it from the prompts
it measured. Source: HADIS 3.2, lookup-table construction: thresholds of router and discriminator for each pair, the
rows kept that no other beats. Ours: the step from which heavy paints over the draft, quality by hardness band, and
intervals.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from planner.catalog.curves import PairRow, check_row
from planner.catalog.entries import DeferralPoint
from planner.catalog.measured import Shares, Start
from planner.catalog.validate import InvalidCatalog, by_band, is_amount, is_share, only, read, require, typed
from schemas.wire_names import field_name

FORMAT = 1
VERSION = 1  # of the swept table

_PROVENANCE = ("format", "created", "command", "machine", "versions", "notes")  # for people; `machine` .. are free
_REMEASURE = "measure again with `pochade profile`"
_ROW_KEYS = tuple(field_name(attribute) for attribute in PairRow._fields)
_RETRY_SWEEP = "sweep again with `pochade profile cascades`"


@dataclass(frozen=True, kw_only=True)
class LevelProfile:
    """One level as it was measured. Refuses impossible values."""

    latency_ms: dict[int, float]  # batch size -> median ms of one call, by the clock that counts
    spread_ms: dict[int, float]  # batch size -> distance of the quartiles
    clock: str  # "cpu": ms of one thread's time; "wall": ms that went by
    load_ms: float  # into a process that has painted with others already
    cold_load_ms: float  # into a new process, with the libraries
    memory_bytes: int  # peak of the process above what it had before it loaded
    cuda_bytes: int  # peak of the device; 0 on a CPU
    quality: float | None = None  # mean over the calibration prompts; None: nobody could judge
    quality_by_band: Shares = ()
    all_facts: float | None = None  # share of the prompts of which every stated fact is right


@dataclass(frozen=True, kw_only=True)
class CascadeProfile:
    """A cascade's discriminator on the light level's pictures, and what painting over them gives."""

    light: str
    heavy: str
    discriminator: str
    latency_ms: float = 0.0  # of one confidence
    deferral: tuple[DeferralPoint, ...] = ()
    deferral_by_band: tuple[tuple[DeferralPoint, ...], ...] = ()
    paint_over: tuple[Start, ...] = ()
    chosen_k: int = 0  # the largest step shown to lose no more than the tolerance; 0: a blank


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


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A catalog's levels, cascades and reuse, of one machine and one set of prompts."""

    catalog: str
    seed: int
    prompts: int
    bands: tuple[float, ...]  # hardness, rising from 0 to 1
    levels: dict[str, LevelProfile]
    cascades: tuple[CascadeProfile, ...] = ()
    reuse: dict[str, tuple[Start, ...]]  # level -> begun from the nearest neighbour's picture
    settings: SweptTable | None = None  # of router and discriminator; None: nobody swept them

    def band(self, hardness: float) -> int:
        """Which band a hardness in [0, 1] lies in; a bound belongs to the band above it, 1 to the last."""
        return min(bisect_right(self.bands, hardness), len(self.bands) - 1) - 1


def parse(text: str, file: str) -> Profile:
    """A profile from its JSON text; `file` is what errors call it.

    Raises:
        Unknown: a key that is not known, with the nearest.
        InvalidCatalog: no JSON, another format, a missing key, a wrong type, an impossible value.
    """
    where = f"profile {file}"
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidCatalog(f"{where} is not JSON: {error}; {_REMEASURE}") from None
    root = _table(root, where)
    require(root.get("format") == FORMAT, f"{where}: format", root.get("format"), str(FORMAT), _REMEASURE)
    only(root, (*_PROVENANCE, "catalog", "seed", "prompts", "bands", "levels", "cascades", "reuse", "settings"), where)
    bands = tuple(float(typed(b, (int, float), f"{where}: bands")) for b in _list(root, "bands", where))
    rises = bands == tuple(sorted(set(bands))) and bands[:1] == (0.0,) and bands[-1:] == (1.0,)
    require(rises, f"{where}: bands", bands, "rising from 0 to 1", _REMEASURE)
    pieces, levels = len(bands) - 1, _table(root.get("levels", {}), f"{where}: levels")
    converted = {
        "bands": bands,
        "levels": {name: _level(table, f"{where}: levels.{name}", pieces) for name, table in levels.items()},
        "cascades": tuple(
            _cascade(table, f"{where}: cascades[{at}]", pieces)
            for at, table in enumerate(_list(root, "cascades", where))
        ),
        "reuse": {
            name: _starts(starts, f"{where}: reuse.{name}", pieces)
            for name, starts in _table(root.get("reuse", {}), f"{where}: reuse").items()
        },
        "settings": parse_swept(root["settings"], f"{where}: settings", pieces) if "settings" in root else None,
    }
    profile = read(Profile, {k: v for k, v in root.items() if k not in _PROVENANCE} | converted, where)
    require(bool(profile.levels), f"{where}: levels", 0, "one or more", _REMEASURE)
    for at, cascade in enumerate(profile.cascades):
        for level in (cascade.light, cascade.heavy):
            require(level in profile.levels, f"{where}: cascades[{at}]", level, "between its levels", _REMEASURE)
    return profile


def _level(value: Any, where: str, pieces: int) -> LevelProfile:
    table = _table(value, where)
    by_batch = {key: _by_batch(table.get(key, {}), f"{where}.{key}") for key in ("latency_ms", "spread_ms")}
    require(1 in by_batch["latency_ms"], f"{where}.latency_ms", table.get("latency_ms"), "of batch 1 too", _REMEASURE)
    for key in ("load_ms", "cold_load_ms", "memory_bytes", "cuda_bytes"):
        require(is_amount(_number(table, key, where)), f"{where}.{key}", table.get(key), ">= 0", _REMEASURE)
    require(table.get("clock") in ("cpu", "wall"), f"{where}.clock", table.get("clock"), "cpu or wall", _REMEASURE)
    return read(LevelProfile, table | by_batch | _by_band(table, where, pieces), where)


def _cascade(value: Any, where: str, pieces: int) -> CascadeProfile:
    table = _table(value, where)
    curves = _list(table, "deferral_by_band", where)
    require(len(curves) in (0, pieces), f"{where}.deferral_by_band", len(curves), f"{pieces}, one a band", _REMEASURE)
    converted = {
        "deferral": _curve(_list(table, "deferral", where), f"{where}.deferral"),
        "deferral_by_band": tuple(_curve(c, f"{where}.deferral_by_band[{b}]") for b, c in enumerate(curves)),
        "paint_over": _starts(_list(table, "paint_over", where), f"{where}.paint_over", pieces),
    }
    return read(CascadeProfile, table | converted, where)


def parse_swept(value: Any, where: str, bands: int) -> SweptTable:
    """From JSON values; `bands`: of hardness, of the profile.

    Raises Unknown for a key that is not known, InvalidCatalog for another version or an impossible value.
    """
    table = dict(typed(value, (dict,), where))
    require(table.get("version") == VERSION, f"{where}: version", table.get("version"), str(VERSION), _RETRY_SWEEP)
    items = typed(table.get("rows", []), (list,), f"{where}: rows")
    return read(
        SweptTable, table | {"rows": tuple(_row(r, f"{where}[{at}]", bands) for at, r in enumerate(items))}, where
    )


def _row(value: Any, where: str, bands: int) -> SweptRow:
    table: Mapping[str, Any] = typed(value, (dict,), where)
    only(table, (*_ROW_KEYS, "low", "high", "prompts"), where)
    quality = by_band(table.get("quality_by_band", []), f"{where}: quality_by_band", bands, _RETRY_SWEEP)
    own = {key: table[key] for key in _ROW_KEYS if key in table} | {"quality_by_band": quality}
    row = read(PairRow, own, where)
    check_row(row)
    figures = {key: typed(table.get(key), (int, float), f"{where}: {key}") for key in ("low", "high", "prompts")}
    return SweptRow(row, float(figures["low"]), float(figures["high"]), int(figures["prompts"]))


def _starts(value: Any, where: str, pieces: int) -> tuple[Start, ...]:
    found = []
    for at, item in enumerate(typed(value, (list,), where)):
        table = _table(item, f"{where}[{at}]")
        found.append(read(Start, table | _by_band(table, f"{where}[{at}]", pieces), f"{where}[{at}]"))
    require([s.k for s in found] == sorted({s.k for s in found}), where, [s.k for s in found], "rising", _REMEASURE)
    return tuple(found)


def _curve(value: Any, where: str) -> tuple[DeferralPoint, ...]:
    points = [
        read(DeferralPoint, _table(point, f"{where}[{at}]"), f"{where}[{at}]")
        for at, point in enumerate(typed(value, (list,), where))
    ]
    inside = all(is_share(point.threshold) and is_share(point.deferred) for point in points)
    require(inside and points == sorted(points), where, points, "shares that rise", _REMEASURE)
    return tuple(points)


def _by_band(table: Mapping[str, Any], where: str, pieces: int) -> dict[str, Shares]:
    key = "quality_by_band"
    return {key: by_band(table.get(key, []), f"{where}.{key}", pieces, _REMEASURE)}


def _by_batch(value: Any, where: str) -> dict[int, float]:
    found = {}
    for batch, ms in _table(value, where).items():
        require(batch.isdecimal() and int(batch) >= 1, where, batch, "by batch sizes", _REMEASURE)
        require(is_amount(typed(ms, (int, float), f"{where}.{batch}")), f"{where}.{batch}", ms, ">= 0", _REMEASURE)
        found[int(batch)] = float(ms)
    return found


def _number(table: Mapping[str, Any], key: str, where: str) -> float:
    return float(typed(table.get(key), (int, float), f"{where}.{key}"))


def _table(value: Any, where: str) -> dict[str, Any]:
    return dict(typed(value, (dict,), where))


def _list(table: Mapping[str, Any], key: str, where: str) -> list[Any]:
    return list(typed(table.get(key, []), (list,), f"{where}: {key}"))
