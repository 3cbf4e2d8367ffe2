"""A catalog's tables as they stand in its TOML file: for clients, which may not ask `planner` what they mean."""

import pathlib
import tomllib
from typing import Any

from schemas.errors import PochadeError, Unknown
from streams.catalogs.shipped import INFRA


def read_catalog(name: str) -> dict[str, Any]:
    """The tables of a shipped catalog (a name) or of a file of the user's.

    Raises:
        Unknown, PochadeError: there is none, it is not TOML, or has no variant.
    """
    text = text_of(name)
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError: nested without end
        raise PochadeError(f"catalog {name!r} is not TOML: {error}") from None
    if not isinstance(tables.get("variants"), dict) or not tables["variants"]:
        raise PochadeError(f"catalog {name!r} has no variant: add [variants.NAME]")
    return tables


def file_of(name: str) -> pathlib.Path:
    """The file of a shipped catalog (a name), or the user's. Raises Unknown for a name that none ships by."""
    if "/" in name or name.endswith(".toml"):
        return pathlib.Path(name)
    shipped = {path.stem: path for path in (INFRA / "catalogs").glob("*.toml")}
    if name not in shipped:
        raise Unknown("catalog", name, shipped)
    return shipped[name]


def text_of(name: str) -> str:
    """The TOML text of a shipped catalog (a name) or of a file of the user's. Raises Unknown, PochadeError."""
    file = file_of(name)
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PochadeError(f"catalog file {name} cannot be read: {error}; correct the setting `catalog`") from None


def missing_models(tables: dict[str, Any], engine: str) -> list[str]:
    """Model folders that are named and not there, each as `variant light: models/light`; hub ids are not looked up.

    `engine` is `worker.engine`: the one that replaces the catalog's, or "".
    """
    wanted = [
        (f"variant {name}", table.get("model", ""))
        for name, table in tables["variants"].items()
        if isinstance(table, dict) and (engine or table.get("engine")) == "diffusers"
    ]
    wanted += [
        (f"discriminator {name}", table.get("folder", ""))
        for name, table in tables.get("discriminators", {}).items()
        if isinstance(table, dict) and table.get("engine") == "learned"
    ]
    return [f"{who}: {folder}" for who, folder in wanted if _is_missing(str(folder))]


def _is_missing(folder: str) -> bool:
    shipped = INFRA / folder
    looks_local = folder.startswith(("models/", "/", "./", "../")) or not folder
    return looks_local and not (folder and (shipped.is_dir() or pathlib.Path(folder).is_dir()))
