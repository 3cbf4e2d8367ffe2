"""Paths of shipped catalogs, models and profiles."""

import importlib.resources
import json
import pathlib
from typing import Final

INFRA: Final = pathlib.Path(str(importlib.resources.files("infra")))
MODELS: Final = INFRA / "models"


def is_missing(model: str) -> bool:
    """Whether a model's folder or file is to be here and is not: neither shipped nor local. Hub ids are elsewhere."""
    looks_local = model.startswith(("models/", "/", "./", "../")) or not model
    return looks_local and not (model and ((INFRA / model).exists() or pathlib.Path(model).exists()))


def classifier_kind(folder: str) -> str:
    """The kind of a learned classifier, by its folder's config.json; "family" where that says or is nothing."""
    try:
        return str(json.loads((INFRA / folder / "config.json").read_text()).get("kind", "family"))
    except (OSError, ValueError, AttributeError):
        return "family"  # who opens it says what is wrong
