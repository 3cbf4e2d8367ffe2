"""The classes that a diffusers model is loaded by, so that they can be imported before the model is there."""

import importlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any, Final

from schemas.errors import PochadeError

INDEX: Final = "model_index.json"
REFINING: Final = "diffusers:AutoPipelineForImage2Image"  # which imports every pipeline of the library: seconds


def classes_of(model: pathlib.Path) -> list[str]:
    """Return `MODULE:CLASS` of a model's pipeline, its parts, and what finds its image-to-image pipeline.

    Raises PochadeError for a folder that is no model.
    """
    path = model / INDEX
    try:
        return [*_named(json.loads(path.read_text())), REFINING]
    except (OSError, ValueError, AttributeError, KeyError) as error:
        raise PochadeError(f"{path} names no pipeline: {error}; is {model} a diffusers model?") from None


def _named(index: dict[str, Any]) -> Iterator[str]:
    yield f"diffusers:{index['_class_name']}"
    for part in index.values():
        if isinstance(part, list) and len(part) == 2 and all(isinstance(each, str) for each in part):
            yield f"{part[0]}:{part[1]}"


def import_named(name: str) -> None:
    """Import `MODULE`, or `MODULE:ATTRIBUTE` of a library that imports its own parts when they are asked for.

    Raises ImportError, AttributeError.
    """
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    if attribute:
        getattr(found, attribute)
