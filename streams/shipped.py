"""Where what ships with the product lies: catalogs, models, profiles."""

import importlib.resources
import pathlib
from typing import Final

INFRA: Final = pathlib.Path(str(importlib.resources.files("infra")))
MODELS: Final = INFRA / "models"


def is_missing(model: str) -> bool:
    """Whether a model's folder is to be on this machine and is not: neither shipped nor here. Hub ids are elsewhere."""
    looks_local = model.startswith(("models/", "/", "./", "../")) or not model
    return looks_local and not (model and ((INFRA / model).is_dir() or pathlib.Path(model).is_dir()))
