"""The catalog that is simulated, with its measured profile where one ships."""

import pathlib

from planner.catalog.evidence import with_files
from planner.catalog.parse import Catalog, parse
from planner.catalog.prompt_table import PromptTable, prompt_table
from planner.catalog.published import with_published
from schemas.errors import PochadeError
from streams.catalogs import profile_file
from streams.catalogs.catalog_file import text_of
from streams.catalogs.published_files import texts_of


def load(name: str, published: str = "") -> Catalog:
    """One shipped under `infra/catalogs`, or a file of the user's; its full files from the folder `published`, if any.

    Raises:
        Unknown, PochadeError: no such catalog or file, or what is wrong in it.
    """
    catalog, found = parse(text_of(name), pathlib.Path(name).stem), profile_file.find(name)
    if published:
        catalog = with_published(catalog, texts_of(pathlib.Path(published), catalog.published, name))
    return with_files(catalog, found.text, found.arrays, found.file) if found else catalog


def recorded(name: str) -> PromptTable:
    """What every level made of each prompt of the catalog's profile. Raises PochadeError where there is none."""
    found = profile_file.find(name)
    if found is None or not found.arrays:
        raise PochadeError(f"catalog {name!r} has no recorded prompts (NAME-quality.npz): leave --recorded out")
    return prompt_table(found.arrays, found.file)
