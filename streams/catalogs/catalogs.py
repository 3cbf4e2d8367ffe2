"""The catalog that the settings name, checked."""

import pathlib

from planner.catalog.evidence import with_files
from planner.catalog.parse import Catalog, parse
from planner.catalog.published import with_published
from streams.catalogs import profile_file
from streams.catalogs.catalog_file import text_of
from streams.catalogs.published_files import texts_of


def load(name: str, published: str = "") -> Catalog:
    """One shipped under `infra/catalogs`, or a file of the user's; its full files from the folder `published`, if any.

    Raises:
        Unknown, PochadeError: no such catalog or file, or what is wrong in it.
    """
    catalog = parse(text_of(name), pathlib.Path(name).stem)
    if not published:
        return catalog
    return with_published(catalog, texts_of(pathlib.Path(published), catalog.published, name))


def measured(name: str, published: str = "") -> Catalog:
    """The same with what its profile knows by hardness band and class, where it has one: what a planner reckons with.

    Raises as `load` does, and for a profile that is none.
    """
    catalog, found = load(name, published), profile_file.find(name)
    return with_files(catalog, found.text, found.arrays, found.file) if found else catalog
