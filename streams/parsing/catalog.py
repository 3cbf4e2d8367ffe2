"""Parses a catalog from TOML text; the catalogs under `infra/catalogs` show the form."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from planner.catalog.components import ADAPTER, BASE, CONTROL, Component
from planner.catalog.curves import CascadeCurves, PairRow, SharePoint
from planner.catalog.engines import CHAOS, ENGINES, check_judge
from planner.catalog.entries import Classifier, Discriminator, Variant
from planner.catalog.measured import Start
from planner.catalog.model import Catalog, Cut, Pair
from planner.catalog.reuse import ReuseProfile
from planner.catalog.validate import InvalidCatalog, require
from schemas.errors import Unknown
from streams.parsing.closed import Source, check_batch_sizes, names_of, read

# Tables by name, which is a field of what they hold -> what such a table may leave out.
_NAMED: Final[Mapping[str, Mapping[str, Any]]] = {
    "variants": {}, "discriminators": {"deferral": []}, "classifiers": {}, "bases": {}, "adapters": {}, "controls": {},
}  # fmt: skip
_OF_SERVERS: Final = {"model": "", "scheduler": "", "load_ms": 0.0}  # left out where a table has a `server`
_COMPONENTS: Final = {"bases": BASE, "adapters": ADAPTER, "controls": CONTROL}
MAX_COUNT: Final = 1000  # components that one table with `count` stands for
_ENDS = ("light", "heavy")  # of a cascade: its settings do not repeat them


@dataclass(frozen=True, kw_only=True)
class MeasuredCascade:
    """A [[cascades]] table: the pair, and the measurements of it."""

    light: str
    heavy: str
    discriminator: str
    refine_from_step: int = 0
    quality: tuple[SharePoint, ...] = ()
    random_quality: tuple[SharePoint, ...] = ()
    settings: tuple[PairRow, ...] = ()

    @property
    def pair(self) -> Pair:
        """The pair that policies plan with."""
        return Pair(self.light, self.heavy, self.discriminator, self.refine_from_step)

    @property
    def curves(self) -> CascadeCurves:
        """Quality by the share of requests that the heavy level answers."""
        return CascadeCurves(self.quality, self.random_quality)


@dataclass(frozen=True, kw_only=True)
class CatalogFile:
    """The top level of a catalog's file."""

    variants: dict[str, Variant] = field(default_factory=dict)
    discriminators: dict[str, Discriminator] = field(default_factory=dict)
    cascades: tuple[MeasuredCascade, ...] = ()
    classes: dict[str, tuple[Cut, ...]] = field(default_factory=dict)
    classifiers: dict[str, Classifier] = field(default_factory=dict)
    scale: str = "facts"
    slo_s: float = 0.0
    indifference: float = 0.0
    reuse: dict[str, tuple[Start, ...]] = field(default_factory=dict)
    reuse_profile: ReuseProfile | None = None
    bases: dict[str, Component] = field(default_factory=dict)
    adapters: dict[str, Component] = field(default_factory=dict)
    controls: dict[str, Component] = field(default_factory=dict)


def parse(text: str, name: str) -> Catalog:
    """Parse a catalog from TOML text. `name` is the catalog's name.

    Raises:
        Unknown: a key, engine, level or discriminator that is not known, with the nearest.
        InvalidCatalog: text that is not TOML, a missing key, a wrong type, an impossible value.
    """
    where = f"catalog {name!r}"
    try:
        root = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: nested without end
        raise InvalidCatalog(f"{where} is not TOML: {error}") from None
    file = read(CatalogFile, _in_full(root, where), Source(where))
    variants = {each: _with_components(variant, file) for each, variant in file.variants.items()}
    for variant in variants.values():
        ENGINES.check(variant.engine)
        require(variant.engine != CHAOS, f"{where}: engine", CHAOS, "one that serves", "set worker.engine, for tests")
    for discriminator in file.discriminators.values():
        check_judge(discriminator)
    return Catalog(
        name=name,
        variants={each: variant for each, variant in variants.items() if not variant.on_request},
        on_request={each: variant for each, variant in variants.items() if variant.on_request},
        discriminators=file.discriminators,
        cascades=tuple(cascade.pair for cascade in file.cascades),
        class_cuts=file.classes,
        classifiers=file.classifiers,
        scale=file.scale,
        slo_s=file.slo_s,
        indifference=file.indifference,
        curves={cascade.pair.key: cascade.curves for cascade in file.cascades if any(cascade.curves)},
        pair_rows=tuple(row for cascade in file.cascades for row in cascade.settings),
        reuse=file.reuse,
        reuse_profile=file.reuse_profile,
    )


def _with_components(variant: Variant, file: CatalogFile) -> Variant:
    """Return a variant with the components of the names that it lists. Raises Unknown."""
    components = []
    for kind, names, known in (
        (BASE, variant.bases, file.bases), (ADAPTER, variant.adapters, file.adapters),
        (CONTROL, variant.controls, file.controls),
    ):  # fmt: skip
        for name in names:
            if name not in known:
                raise Unknown(f"{kind} of variant {variant.name!r}", name, known)
            components.append(known[name])
    for component in components:
        for base in component.bases:
            if base not in file.bases:
                raise Unknown(f"base of {component.id}", base, file.bases)
    return replace(variant, components=tuple(components))


def _in_full(root: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the tables with what the form leaves out: names, and the two levels of each setting of a cascade.

    What has another form stays as it is, for `read` to refuse.
    """
    whole = dict(root)
    for key, left_out in _NAMED.items():
        tables = root.get(key)
        if isinstance(tables, dict):
            whole[key] = {n: _named(table, left_out, n, f"{where}: {key}.{n}") for n, table in tables.items()}
    _number(whole, where)
    for key, kind in _COMPONENTS.items():
        for name, table in whole[key].items() if isinstance(whole.get(key), dict) else ():
            if isinstance(table, dict):
                require("kind" not in table, f"{where}: {key}.{name}.kind", table.get("kind"), "left out", "remove it")
                whole[key][name] = {**table, "kind": kind}
    for name, table in whole["variants"].items() if isinstance(whole.get("variants"), dict) else ():
        own = isinstance(table, dict) and "components" in table
        require(not own, f"{where}: variants.{name}.components", "given", "left out", "list bases, adapters, controls")
    judges = whole["discriminators"] if isinstance(whole.get("discriminators"), dict) else {}
    for name, table in judges.items():
        if isinstance(table, dict) and isinstance(table.get("latency_ms"), int | float):
            judges[name] = {**table, "latency_ms": {"1": table["latency_ms"]}}  # of one image
    for kind in ("variants", "discriminators"):
        for name, table in whole[kind].items() if isinstance(whole.get(kind), dict) else ():
            check_batch_sizes(table, "latency_ms", f"{where}: {kind}.{name}")
    if isinstance(root.get("cascades"), list):
        whole["cascades"] = [_with_ends(table, f"{where}: cascades[{at}]") for at, table in enumerate(root["cascades"])]
    return whole


def _number(whole: dict[str, Any], where: str) -> None:
    """Replace each component with a `count` by this number of copies, `NAME-000` and on, also in lists of variants."""
    variants = whole.get("variants")
    for key in _COMPONENTS:
        tables = whole.get(key)
        for name, table in list(tables.items()) if isinstance(tables, dict) else ():
            if not isinstance(table, dict) or "count" not in table:
                continue
            count = table["count"]
            fits = isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= MAX_COUNT
            require(fits, f"{where}: {key}.{name}.count", count, f"a whole number from 1 to {MAX_COUNT}", "correct it")
            names = [f"{name}-{number:03}" for number in range(count)]
            alike = {field: value for field, value in table.items() if field not in ("count", "name")}
            whole[key] = {each: own for each, own in whole[key].items() if each != name}
            whole[key] |= {each: {**alike, "name": each} for each in names}
            for variant in variants.values() if isinstance(variants, dict) else ():
                if isinstance(variant, dict) and isinstance(variant.get(key), list) and name in variant[key]:
                    place = variant[key].index(name)
                    variant[key] = [*variant[key][:place], *names, *variant[key][place + 1 :]]


def _named(table: Any, left_out: Mapping[str, Any], name: str, where: str) -> Any:
    if not isinstance(table, dict):
        return table
    require("name" not in table, f"{where}.name", table.get("name"), "left out", "the table's own name counts")
    return {**left_out, **(_OF_SERVERS if "server" in table else {}), **table, "name": name}


def _with_ends(table: Any, where: str) -> Any:
    if not isinstance(table, dict) or not isinstance(table.get("settings"), list):
        return table
    ends = {key: table[key] for key in _ENDS if key in table}
    names = [name for name in names_of(PairRow) if name not in _ENDS]
    rows = []
    for at, row in enumerate(table["settings"]):
        if isinstance(row, list):
            require(
                len(row) <= len(names), f"{where}.settings[{at}]", row, f"at most {len(names)} values", "shorten it"
            )
            row = dict(zip(names, row, strict=False))
        rows.append(row | ends if isinstance(row, dict) else row)
    return table | {"settings": rows}
