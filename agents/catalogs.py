"""Reads the catalog that the settings name: one shipped under `infra/catalogs`, or a file of the user's."""

import importlib.resources
import pathlib

from planner.catalog import Catalog, parse
from schemas.errors import PochadeError, Unknown


def load(name: str) -> Catalog:
    """The catalog, checked.

    Raises:
        Unknown, PochadeError: no such catalog, or what is wrong in it.
    """
    shipped = importlib.resources.files("infra").joinpath("catalogs")
    if "/" in name or name.endswith(".toml"):
        path = pathlib.Path(name)
        if not path.is_file():
            raise PochadeError(f"catalog file {name} does not exist: create it or use a shipped one (catalog=tiny)")
        return parse(path.read_text(), path.stem)
    known = {entry.name.removesuffix(".toml") for entry in shipped.iterdir() if entry.name.endswith(".toml")}
    if name not in known:
        raise Unknown("catalog", name, known)
    return parse(shipped.joinpath(f"{name}.toml").read_text(), name)
