"""Generates images of prompts with a pipeline folder, for training, evaluation and tests."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from agents.lab.family import FOLDER, VARIANTS, folder_of
from agents.world.layout import SIZE
from planner.catalog.entries import Variant


class ImageGenerator:
    """A loaded pipeline; the same seed generates the same image, alone or in a batch."""

    def __init__(self, folder: Path, steps: int, guidance: float) -> None:
        """Load a folder, on CUDA where there is one; `guidance` 1.0 is without."""
        self.steps, self.guidance = steps, guidance
        began = time.perf_counter()
        # of the shipped variant only how it is loaded is taken: the engine loads a variant, and here is none to serve
        self._pipeline = _quietly_loaded(replace(next(iter(VARIANTS.values())), model=str(folder), scheduler=""))
        self.load_s = time.perf_counter() - began

    @classmethod
    def of(cls, variant: Variant, models: Path = FOLDER) -> Self:
        """The generator of a catalog's variant, from its folder below `models`."""
        return cls(folder_of(variant, models), variant.steps, variant.guidance)

    def generate(self, prompts: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
        """uint8 [n, 48, 48, 3], one image for each prompt and seed."""
        generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        with torch.inference_mode():
            out = self._pipeline(
                list(prompts),
                height=SIZE,
                width=SIZE,
                num_inference_steps=self.steps,
                guidance_scale=self.guidance,
                generator=generators,
                output_type="np",
            )
        return np.asarray((out.images * 255).round(), np.uint8)


def _quietly_loaded(variant: Variant) -> Any:
    # known and harmless: no torchvision, AutoencoderTiny where AutoencoderKL is the usual, its own unused setting
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()  # before diffusers is imported, which is where it warns
    from diffusers.utils import logging as diffusers_logging

    from agents.engines.pipelines import load_pipeline

    for library in (transformers_logging, diffusers_logging):
        library.set_verbosity_error()
        library.disable_progress_bar()
    pipeline = load_pipeline(variant)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline
