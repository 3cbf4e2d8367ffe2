"""The catalog that the settings name, checked."""

import pathlib

from planner.catalog import Catalog, parse
from streams.catalog_file import text_of


def load(name: str) -> Catalog:
    """One shipped under `infra/catalogs`, or a file of the user's.

    Raises:
        Unknown, PochadeError: no such catalog, or what is wrong in it.
    """
    return parse(text_of(name), pathlib.Path(name).stem)
