"""The catalog: the variants a deployment can paint with and who judges their pictures. All planning rests on it.

Levels are variants; reuse levels join them with approximate caching.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from planner.classifier import Classifier, check_classifiers
from planner.discriminator import DeferralPoint, Discriminator
from planner.loading import Loading
from planner.paint_over import fault
from planner.tables import InvalidCatalog, only, read, require, typed
from planner.variant import Variant, run_ms
from schemas.errors import Unknown

__all__ = [
    "Catalog", "Classifier", "Cut", "DeferralPoint", "Discriminator", "InvalidCatalog", "Pair", "Variant", "classes_of",
    "parse", "run_ms",
]  # fmt: skip

T = TypeVar("T")


class Pair(NamedTuple):
    """A cascade the catalog offers: pictures of `light` that are not good enough are painted again by `heavy`."""

    light: str
    heavy: str
    discriminator: str
    paint_over_step: int = 0  # of heavy's steps, where it begins with light's picture; 0: on a blank


class Cut(NamedTuple):
    """A class by hardness: `level` is believed optimal from the cut before up to this one."""

    level: str
    hardness: float  # upper bound, exclusive, but 1.0 includes 1.0


@dataclass(frozen=True)
class Catalog:
    """All there is to plan with. Refuses names that it does not hold."""

    name: str
    variants: dict[str, Variant]
    discriminators: dict[str, Discriminator]
    cascades: tuple[Pair, ...]  # the first is the one that two-level policies use
    class_cuts: dict[str, tuple[Cut, ...]]  # strategy -> cuts ascending to 1.0
    classifiers: dict[str, Classifier] = field(default_factory=dict)  # the first tells hardness; none: shipped rules

    def __post_init__(self) -> None:
        require(bool(self.variants), f"catalog {self.name!r}", 0, "of one variant or more", "add [variants.NAME]")
        for pair in self.cascades:
            self.level(pair.light), self.level(pair.heavy), self.discriminator(pair.discriminator)
            require(pair.light != pair.heavy, "a cascade", tuple(pair), "between two levels", "name another heavy")
            wrong = fault(pair.paint_over_step, self.level(pair.light), self.level(pair.heavy))
            if wrong:
                raise InvalidCatalog(f"cascade from {pair.light} to {pair.heavy}: {wrong}")
        for strategy, cuts in self.class_cuts.items():
            for cut in cuts:
                self.level(cut.level)
            bounds = [cut.hardness for cut in cuts]
            ascends = bounds == sorted(set(bounds)) and bounds[:1] > [0.0] and bounds[-1:] == [1.0]
            require(ascends, f"classes of {strategy!r}", bounds, "ascending from above 0 to 1.0", "correct the cuts")
        check_classifiers(self.classifiers.values(), self.level)

    def classes(self, strategy: str) -> frozenset[str]:
        """The levels that may be named as a prompt's class under a strategy; none where nobody names any."""
        learned = next((c.levels for c in self.classifiers.values() if c.strategy == strategy), ())
        return frozenset(learned) or frozenset(cut.level for cut in self.class_cuts.get(strategy, ()))

    def level(self, name: str) -> Variant:
        """The variant that paints a level. Raises Unknown with the known ones."""
        return _known(self.variants, "level", name)

    def discriminator(self, name: str) -> Discriminator:
        """A discriminator. Raises Unknown with the known ones."""
        return _known(self.discriminators, "discriminator", name)

    def pair(self) -> Pair:
        """The cascade that two-level policies use. Raises InvalidCatalog when there is none."""
        if not self.cascades:
            raise InvalidCatalog(f"catalog {self.name!r} has no cascade: add [[cascades]] or use a policy without one")
        return self.cascades[0]

    def cheapest(self) -> Variant:
        """The variant with the shortest call for one picture."""
        return min(self.variants.values(), key=lambda v: (run_ms(v, 1), v.name))

    def best(self) -> Variant:
        """The variant of the highest quality; unmeasured ones come last, the slower one wins a tie."""
        return max(self.variants.values(), key=lambda v: (-math.inf if v.quality is None else v.quality, run_ms(v, 1)))

    def cheaper_than(self, level: str) -> list[Variant]:
        """The variants with a shorter call than this level's, the longest first: what to fall back to."""
        limit = run_ms(self.level(level), 1)
        cheaper = [v for v in self.variants.values() if run_ms(v, 1) < limit]
        return sorted(cheaper, key=lambda v: (-run_ms(v, 1), v.name))


def classes_of(catalog: Catalog, hardness: float) -> dict[str, str]:
    """strategy -> the level believed optimal at a hardness in [0, 1], by cuts: where no classifier predicts it."""
    return {
        strategy: next((cut.level for cut in cuts if hardness < cut.hardness), cuts[-1].level)
        for strategy, cuts in catalog.class_cuts.items()
    }


def parse(text: str, name: str) -> Catalog:
    """A catalog from TOML text (`infra/catalogs/*.toml` show the form). `name` is what its users call it.

    Raises:
        Unknown: a key, engine, level or discriminator that is not known, with the nearest.
        InvalidCatalog: text that is not TOML, a missing key, a wrong type, an impossible value.
    """
    try:
        root = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidCatalog(f"catalog {name!r} is not TOML: {error}") from None
    only(root, ("variants", "discriminators", "cascades", "classes", "classifiers"), f"catalog {name!r}")
    return Catalog(
        name=name,
        variants={n: _variant(n, table) for n, table in _tables(root, "variants")},
        discriminators={n: _discriminator(n, table) for n, table in _tables(root, "discriminators")},
        cascades=tuple(read(Pair, _table(item, "a cascade"), "a cascade") for item in _list(root, "cascades")),
        class_cuts={
            strategy: _cuts(cuts, strategy) for strategy, cuts in _table(root.get("classes", {}), "classes").items()
        },
        classifiers={n: _classifier(n, table) for n, table in _tables(root, "classifiers")},
    )


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
    points = [read(DeferralPoint, _table(p, where), f"{where}: deferral") for p in _list(table, "deferral")]
    return read(Discriminator, {**table, "name": name, "deferral": tuple(points)}, where)


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


def _known(entries: Mapping[str, T], kind: str, name: str) -> T:
    if name not in entries:
        raise Unknown(kind, name, entries)
    return entries[name]
