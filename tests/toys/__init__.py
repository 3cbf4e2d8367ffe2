"""Toys of diffusers' families: folders of their true classes with random weights, each made in a tenth of a second.

All 17 fill 10 MB, the largest 1.6: the sizes of some layers are fixed by their classes. A toy generates images of 64
by 64 pixels, or of other multiples of 16 (Sana: 32), in hundredths of a second a step.
"""

import math
import pathlib
import warnings
from typing import Any

import torch
from diffusers import DiffusionPipeline

from tests.toys.families import FAMILIES

__all__ = ["FAMILIES", "Toys", "opened", "write_toy"]


def write_toy(family: str, folder: pathlib.Path, seed: int = 0) -> pathlib.Path:
    """Write the family's folder, as `DiffusionPipeline.from_pretrained` reads it, and return it.

    `seed`: another one gives other weights of the same shapes: a second model of the family.
    """
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        pipeline = FAMILIES[family]()
        randomize(pipeline, seed)
        pipeline.save_pretrained(folder)
    return folder


def opened(folder: str) -> Any:
    """Return the bare pipeline of a folder, as the library reads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = DiffusionPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@torch.no_grad()
def randomize(pipeline: object, seed: int) -> None:
    """Draw all weights anew, so that values keep their size from layer to layer and no part of a model is idle."""
    generator = torch.Generator().manual_seed(seed)
    for _name, part in sorted(pipeline.components.items()):  # type: ignore[attr-defined]
        for name, weights in part.named_parameters() if isinstance(part, torch.nn.Module) else ():
            if weights.dim() > 1:
                weights.normal_(0, 1 / math.sqrt(weights[0].numel()), generator=generator)
            else:
                weights.normal_(float("norm" in name and name.endswith("weight")), 0.1, generator=generator)


class Toys:
    """The toys in a folder, each written when it is first asked for. Tests share those of the fixture `toys`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    def __call__(self, family: str, seed: int = 0) -> str:
        """Return the path of a family's folder."""
        folder = self._folder / f"{family}-{seed}"
        if not (folder / "model_index.json").exists():
            write_toy(family, folder, seed)
        return str(folder)
