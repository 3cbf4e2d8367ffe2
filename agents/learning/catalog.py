"""Writes what was learned into a catalog's TOML text; its comments stay."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit

from agents.models.saved import CONFIG

NAME = "learned"  # of the new entries
STRATEGY = "models"


class Judges(NamedTuple):
    """The judges that a catalog is to name."""

    light: str
    heavy: str
    levels: tuple[str, ...]  # the fastest first
    discriminator: Path | None = None  # folder
    classifier: Path | None = None  # folder
    may_refine: bool = True  # whether the heavy level may begin with the light one's image: their sizes are equal


def with_judges(text: str, judges: Judges) -> str:
    """The text with the entries of the judges that there are, before those of the same kind.

    The cascade between the two levels is the first one, which policies of two levels use; a classifier of the same
    strategy gives way.
    """
    document: Any = tomlkit.parse(text)
    _drop(document.get("discriminators", {}), lambda name, _table: name == NAME)
    if judges.discriminator is not None:
        _section(document, "discriminators").add(NAME, _discriminator(judges.discriminator))
    kept = [each for each in document.pop("cascades", []) if each["discriminator"] != NAME]
    if judges.discriminator is not None:
        pair = {"light": judges.light, "heavy": judges.heavy, "discriminator": NAME}
        kept.insert(0, _table(pair | ({"paint_over_step": 0} if judges.may_refine else {})))
    if kept:
        cascades = tomlkit.aot()
        for each in kept:
            cascades.append(each)
        document.add("cascades", cascades)
    classifiers = document.pop("classifiers", {})
    _drop(classifiers, lambda name, table: name == NAME or (judges.classifier and table.get("strategy") == STRATEGY))
    if judges.classifier is not None:
        section = _section(document, "classifiers")
        entry = {"engine": "learned", "folder": str(judges.classifier), "strategy": STRATEGY}
        section.add(NAME, _table(entry | {"levels": list(judges.levels)}))
    for name, table in classifiers.items():
        _section(document, "classifiers").add(name, table)
    return tomlkit.dumps(document)


def _discriminator(folder: Path) -> Any:
    config = json.loads((folder / CONFIG).read_text())
    table = _table({"engine": "learned", "folder": str(folder), "threshold": round(config["threshold"], 4)})
    points = tomlkit.array()
    rounded = {round(point["threshold"], 4): round(point["deferred"], 4) for point in config["deferral"]}
    for threshold, deferred in rounded.items():  # one for each: of several that are rounded alike the last
        row = tomlkit.inline_table()
        row.update({"threshold": threshold, "deferred": deferred})
        points.append(row)
    table.add("deferral", points.multiline(multiline=True))
    table.add("latency_ms", 1)  # until it is measured
    return table


def _table(fields: dict[str, Any]) -> Any:
    table = tomlkit.table()
    for key, value in fields.items():
        table.add(key, value)
    return table


def _section(document: Any, name: str) -> Any:
    if name not in document:
        document.add(name, tomlkit.table(is_super_table=True))
    return document[name]


def _drop(tables: Any, is_old: Any) -> None:
    for name in [name for name, table in tables.items() if is_old(name, table)]:
        del tables[name]
