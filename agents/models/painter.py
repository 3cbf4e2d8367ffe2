"""Paint prompts with one of the shipped pipelines: what evaluation, training of the discriminator and tests use."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from transformers.utils import logging as transformers_logging

from agents.models.layout import SIZE


class Painter:
    """A loaded variant; the same seed paints the same picture, alone or in a batch."""

    def __init__(self, folder: Path, steps: int, guidance: float) -> None:
        # known and harmless: no torchvision, AutoencoderTiny where AutoencoderKL is the usual, its own unused setting
        transformers_logging.set_verbosity_error()  # before the import, which is where it warns
        from diffusers import DiffusionPipeline
        from diffusers.utils import logging as diffusers_logging

        for library in (transformers_logging, diffusers_logging):
            library.set_verbosity_error()
            library.disable_progress_bar()
        began = time.perf_counter()
        self.steps, self.guidance = steps, guidance
        self._pipeline = DiffusionPipeline.from_pretrained(folder, torch_dtype=torch.float32)
        self._pipeline.set_progress_bar_config(disable=True)
        self._pipeline.to("cuda" if torch.cuda.is_available() else "cpu")
        self.load_s = time.perf_counter() - began

    def paint(self, prompts: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
        """uint8 [n, 32, 32, 3], one picture for each prompt and seed."""
        generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
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
