"""A learned part on disk: a folder with config.json and model.safetensors (fp16), read and written in one way."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from safetensors.numpy import load_file, save_file

from schemas.errors import PochadeError, Unknown

CONFIG, WEIGHTS = "config.json", "model.safetensors"

if TYPE_CHECKING:  # what computes with numpy alone does without torch
    from torch import nn

_Module = TypeVar("_Module", bound="nn.Module")


@dataclass(frozen=True, slots=True)
class Saved:
    """The contents of a model's folder: configuration and weights by part."""

    folder: Path
    config: Mapping[str, Any]
    weights: Mapping[str, np.ndarray]  # "part.name" -> fp32

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read both files. Raises PochadeError where one of them is missing."""
        for name in (CONFIG, WEIGHTS):
            if not (folder / name).is_file():
                raise PochadeError(f"{folder} holds no {name}: train it, or name the folder it was trained into")
        weights = {name: value.astype(np.float32) for name, value in load_file(folder / WEIGHTS).items()}
        return cls(folder, json.loads((folder / CONFIG).read_text()), weights)

    def kind(self, known: Collection[str], what: str) -> str:
        """The kind that the configuration names, of those that are known for `what`. Raises Unknown for another."""
        named: str = self.config["kind"]
        if named not in known:
            raise Unknown(f"kind of {what}", named, known)
        return named

    def into(self, part: str, module: _Module) -> _Module:
        """The module with the weights of a part, ready to be used; every weight must be there."""
        import torch

        prefix = f"{part}."
        mine = {name: value for name, value in self.weights.items() if name.startswith(prefix)}
        module.load_state_dict({name.removeprefix(prefix): torch.from_numpy(value) for name, value in mine.items()})
        return module.eval().requires_grad_(False)


def save(folder: Path, config: Mapping[str, object], parts: "Mapping[str, nn.Module]") -> None:
    """Write the folder, making it; whatever is a number with a fraction is kept in fp16."""
    weights = {}
    for part, module in parts.items():
        for name, value in module.state_dict().items():
            value = value.detach().cpu()
            weights[f"{part}.{name}"] = (value.half() if value.is_floating_point() else value).contiguous().numpy()
    write(folder, config, weights)


def write(folder: Path, config: Mapping[str, object], weights: Mapping[str, np.ndarray]) -> None:
    """Write the folder, making it, with the weights as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(dict(weights), folder / WEIGHTS)
    (folder / WEIGHTS).chmod(0o644)  # safetensors writes for the owner alone; a container may run as somebody else
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
