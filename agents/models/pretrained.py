"""Where the files of a pretrained model are, and on which device it is opened."""

from typing import Any, NamedTuple

import torch

from agents.engines import model_source, revised


class Place(NamedTuple):
    """A folder, or a hub id with its revision."""

    source: str
    revision: str | None

    @property
    def files(self) -> dict[str, Any]:
        """How `from_pretrained` is called for its weights; other formats than safetensors can run code."""
        return {**self.words, "use_safetensors": True}

    @property
    def words(self) -> dict[str, Any]:
        """How `from_pretrained` is called for what is no weights."""
        return {"pretrained_model_name_or_path": self.source, "revision": self.revision}


def place_of(named: str) -> Place:
    """Return where a model is that a catalog names. Raises EngineFailed: a folder that is not there."""
    return Place(*revised(model_source(named)))


def device_named(named: str) -> str:
    """Return the device of that name; of "": cuda where there is one, else cpu."""
    return named or ("cuda" if torch.cuda.is_available() else "cpu")
