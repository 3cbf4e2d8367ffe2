"""The catalog that the settings name, checked."""

import pathlib

from planner.catalog import Catalog, parse
from planner.catalogs.evidence import with_files
from streams import profile_file
from streams.catalog_file import text_of


def load(name: str) -> Catalog:
    """One shipped under `infra/catalogs`, or a file of the user's.

    Raises:
        Unknown, PochadeError: no such catalog, or what is wrong in it.
    """
    return parse(text_of(name), pathlib.Path(name).stem)


def measured(name: str) -> Catalog:
    """The same with what its profile knows by hardness band and class, where it has one: what a planner reckons with.

    Raises as `load` does, and for a profile that is none.
    """
    catalog, found = load(name), profile_file.find(name)
    return with_files(catalog, found.text, found.arrays, found.file) if found else catalog
