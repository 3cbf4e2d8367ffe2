"""The table that a sweep leads to, into the profile's JSON, and what is to be said of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agents.profiling.cascades.settings import Setting
from agents.profiling.cascades.sweep import Sweep, front, intervals, optimism
from agents.profiling.statistics.intervals import Estimate, Resampling
from planner.catalog.curves import PairRow
from planner.catalog.model import Catalog
from planner.catalog.profile import SweptRow, SweptTable
from schemas.wire_names import field_name
from streams.parsing.profile import parse

SURE = 1.0  # standard errors by which a row must be better than any cheaper one
MIN_PROMPTS = 30


class Choice(NamedTuple):
    """The rules by which rows are chosen and judged."""

    sure: float = SURE
    resampling: Resampling = Resampling(seed=1)


def of_catalog_cascades(seen: Sweep, catalog: Catalog) -> Sweep:
    """The settings of the catalog's own cascades."""
    pairs = {(pair.light, pair.heavy) for pair in catalog.cascades}
    return seen.of([at for at, s in enumerate(seen.settings) if (s.pair.light, s.pair.heavy) in pairs])


def table_of(seen: Sweep, catalog: Catalog, choice: Choice, about: Mapping[str, str]) -> SweptTable:
    """The rows that no other beats. `about`: `created` and `command`."""
    best = seen.of(front(seen, choice.sure))
    most = 1.0 if catalog.scale == "facts" else float("inf")
    rows = [
        _row(setting, best.by_band(at), best.widths.tolist(), found, most)
        for at, (setting, found) in enumerate(zip(best.settings, intervals(best, choice.resampling), strict=True))
    ]
    gap = optimism(seen, choice.sure, choice.resampling.seed)
    return SweptTable(
        created=about["created"],
        command=about["command"],
        prompts=len(seen.strata),
        resamples=choice.resampling.resamples,
        seed=choice.resampling.seed,
        sure=choice.sure,
        optimism=None if gap is None else round(gap, 5),
        rows=tuple(rows),
    )


def with_table(text: str, table: SweptTable, file: str) -> str:
    """The profile's JSON with the table as `settings`, a row a line, in place of an older one."""
    tables = {name: getattr(table, name) for name in SweptTable.__dataclass_fields__ if name != "rows"}
    document = json.loads(text) | {"settings": _known(tables) | {"rows": []}}
    rows = ",\n".join(f"   {json.dumps(_flat(row))}" for row in table.rows)
    marked = json.dumps(document, indent=1).rsplit('"rows": []', 1)
    written = f'"rows": [\n{rows}\n  ]'.join(marked) + "\n" if rows else '"rows": []'.join(marked) + "\n"
    assert parse(written, file).settings == table, "a table must be readable as it was written"
    return written


def remarks(seen: Sweep, catalog: Catalog, table: SweptTable) -> list[str]:
    """Return the limits of the table, one sentence a line."""
    lines = [f"{level} is left out of all pairs: {rule} (HADIS 3.2)" for level, rule in seen.pruned.items()]
    lines += [f"{p.light} then {p.heavy} is not swept: {p.light}'s images were not judged" for p in seen.unjudged]
    few = [at + 1 for at, row in enumerate(table.rows) if row.prompts < MIN_PROMPTS]
    if few:
        lines.append(f"rows {', '.join(map(str, few))} rest on fewer than {MIN_PROMPTS} prompts in one of their parts")
    if table.optimism is not None:
        lines.append(f"rows chosen on half of the prompts have {table.optimism:.4f} less quality on the other half")
    mine = of_catalog_cascades(seen, catalog).settings
    others = {s.pair._replace(refine_from_step=0) for s in best_of(seen, table.sure)} - {
        s.pair._replace(refine_from_step=0) for s in mine
    }
    return lines + [
        f"{p.light} then {p.heavy} would have rows too, but the catalog offers no such cascade" for p in sorted(others)
    ]


def best_of(seen: Sweep, sure: float) -> Sequence[Setting]:
    """The settings that no other of all pairs beats, offered or not, the cheapest first."""
    return seen.of(front(seen, sure)).settings


def _row(
    setting: Setting, by_band: Sequence[float | None], widths: Sequence[float], found: Estimate, most: float
) -> SweptRow:
    bounded = [None if quality is None else min(most, round(quality, 5)) for quality in by_band]
    quality = sum(w * q for w, q in zip(widths, bounded, strict=True) if q is not None)
    row = PairRow(
        light=setting.pair.light,
        heavy=setting.pair.heavy,
        router_ratio=round(setting.straight, 5),
        disc_ratio=round(setting.deferred, 5),
        latency_ms=round(setting.cost_ms, 2),
        quality=round(quality, 5),
        hardness=setting.hardness,
        threshold=setting.threshold,
        refine_from_step=setting.pair.refine_from_step,
        quality_by_band=tuple(bounded),
        discriminator=setting.pair.discriminator,
    )
    return SweptRow(row, round(found.low, 5), round(found.high, 5), setting.prompts)


def _flat(row: SweptRow) -> dict[str, Any]:
    return _known({field_name(name): value for name, value in row.row._asdict().items()}) | {
        "low": row.low,
        "high": row.high,
        "prompts": row.prompts,
    }


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
