"""The shipped variants: folder, steps, guidance and measured times, as `infra/catalogs/tiny.toml` states them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from streams import catalogs
from streams.shipped import MODELS

CATALOG: Final[Catalog] = catalogs.load("tiny")
VARIANTS: Final[Mapping[str, Variant]] = CATALOG.variants
FOLDER: Final = MODELS


def folder_of(variant: Variant, models: Path = FOLDER) -> Path:
    """A variant's folder below `models`: its name in the catalog is relative to infra/."""
    return models / Path(variant.model).name
