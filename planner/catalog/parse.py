"""A catalog from TOML text."""

import tomllib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from planner.catalog.curves import CascadeCurves, PairRow, SharePoint
from planner.catalog.entries import Classifier, DeferralPoint, Discriminator, Loading, Variant
from planner.catalog.measured import Start
from planner.catalog.model import Catalog, Cut, Pair
from planner.catalog.validate import InvalidCatalog, only, read, require, rows, typed

_TABLES: Final = (
    "variants", "discriminators", "cascades", "classes", "classifiers", "scale", "slo_s", "indifference", "reuse",
    "published",
)  # fmt: skip
_MEASURED: Final = ("quality", "random_quality", "settings")  # keys of a cascade that are not the pair's own


def parse(text: str, name: str) -> Catalog:
    """A catalog from TOML text (`infra/catalogs/*.toml` show the form). `name` is what its users call it.

    Raises:
        Unknown: a key, engine, level or discriminator that is not known, with the nearest.
        InvalidCatalog: text that is not TOML, a missing key, a wrong type, an impossible value.
    """
    try:
        root = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: nested without end
        raise InvalidCatalog(f"catalog {name!r} is not TOML: {error}") from None
    only(root, _TABLES, f"catalog {name!r}")
    offered = [_measured_cascade(_table(item, "a cascade")) for item in _list(root, "cascades")]
    return Catalog(
        name=name,
        variants={n: _variant(n, table) for n, table in _tables(root, "variants")},
        discriminators={n: _discriminator(n, table) for n, table in _tables(root, "discriminators")},
        cascades=tuple(cascade.pair for cascade in offered),
        class_cuts={
            strategy: _cuts(cuts, strategy) for strategy, cuts in _table(root.get("classes", {}), "classes").items()
        },
        classifiers={n: _classifier(n, table) for n, table in _tables(root, "classifiers")},
        scale=typed(root.get("scale", "facts"), (str,), "scale"),
        slo_s=float(typed(root.get("slo_s", 0.0), (int, float), "slo_s")),
        indifference=float(typed(root.get("indifference", 0.0), (int, float), "indifference")),
        curves={cascade.pair.key: cascade.curves for cascade in offered if any(cascade.curves)},
        pair_rows=tuple(row for cascade in offered for row in cascade.settings),
        reuse={n: rows(Start, starts, f"reuse.{n}") for n, starts in _table(root.get("reuse", {}), "reuse").items()},
        published={
            kind: typed(file, (str,), f"published.{kind}")
            for kind, file in _table(root.get("published", {}), "published").items()
        },
    )


class _MeasuredCascade(NamedTuple):
    """A [[cascades]] table: the pair, and what was measured of it."""

    pair: Pair
    curves: CascadeCurves
    settings: tuple[PairRow, ...]


def _measured_cascade(table: Mapping[str, Any]) -> _MeasuredCascade:
    pair = read(Pair, {key: value for key, value in table.items() if key not in _MEASURED}, "a cascade")
    where, ends = f"cascade from {pair.light} to {pair.heavy}", {"light": pair.light, "heavy": pair.heavy}
    curves = CascadeCurves(
        judged=rows(SharePoint, table.get("quality", []), f"{where}: quality"),
        random=rows(SharePoint, table.get("random_quality", []), f"{where}: random_quality"),
    )
    return _MeasuredCascade(pair, curves, rows(PairRow, table.get("settings", []), f"{where}: settings", ends))


def _variant(name: str, table: Mapping[str, Any]) -> Variant:
    where = f"variant {name!r}"
    latencies = _table(table.get("latency_ms", {}), f"{where}: latency_ms")
    for batch, ms in latencies.items():
        require(batch.isdecimal(), f"{where}: a key of latency_ms", batch, "a batch size", "correct it")
        typed(ms, (int, float), f"{where}: latency_ms at {batch}")
    converted: dict[str, Any] = {
        "name": name,
        "latency_ms": {int(b): float(ms) for b, ms in latencies.items()},
        "honours": tuple(typed(option, (str,), f"{where}: honours") for option in _list(table, "honours")),
    }
    if "loading" in table:
        converted["loading"] = read(Loading, _table(table["loading"], f"{where}: loading"), f"{where}: loading")
    return read(Variant, {**table, **converted}, where)


def _discriminator(name: str, table: Mapping[str, Any]) -> Discriminator:
    where = f"discriminator {name!r}"
    points = rows(DeferralPoint, table.get("deferral", []), f"{where}: deferral")
    return read(Discriminator, {**table, "name": name, "deferral": points}, where)


def _classifier(name: str, table: Mapping[str, Any]) -> Classifier:
    where = f"classifier {name!r}"
    levels = tuple(typed(level, (str,), f"{where}: levels") for level in _list(table, "levels"))
    return read(Classifier, {**table, "name": name, "levels": levels}, where)


def _cuts(cuts: Any, strategy: str) -> tuple[Cut, ...]:
    where = f"classes of {strategy!r}"
    return tuple(read(Cut, _table(cut, where), where) for cut in typed(cuts, (list,), where))


def _tables(root: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
    tables: list[tuple[str, Mapping[str, Any]]] = [
        (name, _table(value, f"{key}.{name}")) for name, value in _table(root.get(key, {}), key).items()
    ]
    for name, table in tables:
        require(
            "name" not in table, f"{key}.{name}: name", table.get("name"), "left out", "the table's own name counts"
        )
    return tables


def _table(value: Any, where: str) -> dict[str, Any]:
    table: dict[str, Any] = typed(value, (dict,), where)
    return table


def _list(table: Mapping[str, Any], key: str) -> list[Any]:
    items: list[Any] = typed(table.get(key, []), (list,), key)
    return items
