"""Paths of shipped catalogs, models and profiles."""

import importlib.resources
import pathlib
from typing import Final

INFRA: Final = pathlib.Path(str(importlib.resources.files("infra")))
MODELS: Final = INFRA / "models"


def is_missing(model: str) -> bool:
    """Whether a model's folder or file is to be here and is not: neither shipped nor local. Hub ids are elsewhere."""
    looks_local = model.startswith(("models/", "/", "./", "../")) or not model
    return looks_local and not (model and ((INFRA / model).exists() or pathlib.Path(model).exists()))
