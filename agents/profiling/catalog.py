"""A catalog of models in another folder; writes measured figures as TOML to paste, or over the old ones."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import InlineTable

from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.catalog.profile import CascadeProfile, LevelProfile, Profile
from schemas.errors import PochadeError


def relocated(catalog: Catalog, models: Path) -> Catalog:
    """The catalog with every model path below models/ moved to another folder."""

    def moved(folder: str) -> str:
        return str(models.resolve() / folder.removeprefix("models/")) if folder.startswith("models/") else folder

    return replace(
        catalog,
        variants={name: replace(v, model=moved(v.model)) for name, v in catalog.variants.items()},
        discriminators={
            name: replace(
                d,
                folder=moved(d.folder),
                model=moved(d.model),
                floor=d.floor and d.floor._replace(model=moved(d.floor.model)),
            )
            for name, d in catalog.discriminators.items()
        },
        classifiers={name: replace(c, folder=moved(c.folder)) for name, c in catalog.classifiers.items()},
    )


def on_pinned_cards(catalog: Catalog) -> Catalog:
    """The catalog for processes that see one card alone: what names a card, cuda:N, has that one."""

    def pinned(variant: Variant) -> Variant:
        device = "cuda" if variant.loading.device.startswith("cuda:") else variant.loading.device
        return replace(variant, loading=replace(variant.loading, device=device))

    return replace(
        catalog,
        variants={name: pinned(each) for name, each in catalog.variants.items()},
        on_request={name: pinned(each) for name, each in catalog.on_request.items()},
    )


def snippet(profile: Profile) -> str:
    """The measured fields, table by table, as they stand in a catalog."""
    document = tomlkit.document()
    for kind, tables in _figures(profile).items():
        section = tomlkit.table(is_super_table=True)
        for name, fields in tables.items():
            table = tomlkit.table()
            for key, value in fields.items():
                table.add(key, value)
            section.add(name, table)
        if tables:
            document.add(kind, section)
    steps = [
        f"# cascade {c.light} to {c.heavy}: paint_over_step = {c.chosen_k}" for c in profile.cascades if c.paint_over
    ]
    return "\n".join([tomlkit.dumps(document), *steps])


def updated(text: str, profile: Profile) -> str:
    """The catalog's text with the measured fields replaced, and the steps chosen for the cascades that refine.

    Raises PochadeError for a level or discriminator that the text has no table for.
    """
    document: Any = tomlkit.parse(text)
    for kind, tables in _figures(profile).items():
        for name, fields in tables.items():
            if name not in document.get(kind, {}):
                raise PochadeError(f"the catalog has no [{kind}.{name}] to write into: was it changed meanwhile?")
            document[kind][name].update(fields)
    for cascade in profile.cascades:
        if cascade.paint_over:
            _set_step(document.get("cascades", []), cascade)
    return tomlkit.dumps(document)


def with_load_times(text: str, times: Mapping[str, Mapping[str, float]]) -> str:
    """The catalog's text with the load times of components: id -> tier -> ms to the device.

    Raises PochadeError for a component that the text has no table for.
    """
    document: Any = tomlkit.parse(text)
    for id_, found in times.items():
        kind, _, name = id_.partition(":")
        if name not in document.get(f"{kind}s", {}):
            raise PochadeError(f"the catalog has no [{kind}s.{name}] to write into: was it changed meanwhile?")
        table = tomlkit.inline_table()
        table.update({tier: float(f"{ms:.3g}") for tier, ms in sorted(found.items(), key=lambda each: -each[1])})
        document[f"{kind}s"][name]["load_ms"] = table
    return tomlkit.dumps(document)


def _set_step(cascades: Any, measured: CascadeProfile) -> None:
    for table in cascades:
        if (table["light"], table["heavy"]) == (measured.light, measured.heavy) and "paint_over_step" in table:
            table["paint_over_step"] = measured.chosen_k


def _figures(profile: Profile) -> Mapping[str, dict[str, dict[str, Any]]]:
    """Kind of table -> name -> field -> value."""
    judges: dict[str, dict[str, Any]] = {
        cascade.discriminator: {"deferral": _curve(cascade)}
        for cascade in reversed(profile.cascades)  # of several on one discriminator the first counts
        if cascade.deferral
    }
    for name, times in profile.judging_ms.items():
        judges.setdefault(name, {})["latency_ms"] = _latencies(times)
    return {"variants": {name: _variant(level) for name, level in profile.levels.items()}, "discriminators": judges}


def _variant(level: LevelProfile) -> dict[str, Any]:
    load_ms = level.load_ms if level.disk_load_ms is None else level.disk_load_ms
    fields: dict[str, Any] = {"latency_ms": _latencies(level.latency_ms), "load_ms": round(load_ms)}
    return fields if level.quality is None else fields | {"quality": round(level.quality, 4)}


def _latencies(latency_ms: Mapping[int, float]) -> InlineTable:
    """One line; a larger batch that was measured quicker by chance is given the smaller one's time."""
    table, batches = tomlkit.inline_table(), sorted(latency_ms)
    grown = accumulate((latency_ms[batch] for batch in batches), max)
    for batch, ms in zip(batches, grown, strict=True):
        table.add(str(batch), float(f"{ms:.4g}"))
    return table


def _curve(cascade: CascadeProfile) -> Any:
    points = tomlkit.array()
    for point in cascade.deferral:
        table = tomlkit.inline_table()
        table.update({"threshold": point.threshold, "deferred": point.deferred})
        points.append(table)
    return points.multiline(multiline=True)
