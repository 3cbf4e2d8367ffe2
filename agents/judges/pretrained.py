"""Where a pretrained judge's files are, and on which device it judges."""

import os
from typing import Any, NamedTuple

import torch

from agents.engines import model_source, revised
from agents.judges import JudgeFailed
from planner.catalog.judges import Judge

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it warns, when imported, of packages that no judge needs


class Place(NamedTuple):
    """A folder, or a hub id with its revision."""

    source: str
    revision: str | None

    @property
    def files(self) -> dict[str, Any]:
        """How `from_pretrained` is called for its weights; other formats than safetensors can run code."""
        return {"pretrained_model_name_or_path": self.source, "revision": self.revision, "use_safetensors": True}

    @property
    def words(self) -> dict[str, Any]:
        """How `from_pretrained` is called for what is no weights."""
        return {"pretrained_model_name_or_path": self.source, "revision": self.revision}


def place_of(named: str) -> Place:
    """Return where a model is that a catalog names. Raises EngineFailed: a folder that is not there."""
    return Place(*revised(model_source(named)))


def device_of(judge: Judge) -> str:
    """Return the device of a judge on this machine. Raises JudgeFailed: it is not there."""
    has_cuda = torch.cuda.is_available()
    device = judge.device or ("cuda" if has_cuda else "cpu")
    if device.startswith("cuda") and not has_cuda:
        raise JudgeFailed(f"judge {judge.name!r}: device {device!r} is not there: omit it to judge on the CPU")
    return device
