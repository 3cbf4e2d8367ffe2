"""The `diffusers` engine: any folder or hub id that `DiffusionPipeline.from_pretrained` reads, on CPU or CUDA."""

import importlib
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from diffusers import DiffusionPipeline
from diffusers.utils import logging as diffusers_logging
from PIL.Image import Image

from agents.engines import EngineFailed, PaintTask, ShouldStop, model_source
from planner.catalog import Variant


class DiffusersEngine:
    """One loaded pipeline with the variant's steps, guidance and size."""

    def __init__(self, pipeline: Any, variant: Variant) -> None:
        self._pipeline, self._variant = pipeline, variant

    def paint(self, tasks: Sequence[PaintTask], should_stop: ShouldStop) -> list[Image] | None:
        was_stopped = False

        def after_step(pipeline: Any, _step: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
            nonlocal was_stopped
            if should_stop():
                was_stopped = pipeline._interrupt = True
            return tensors

        # one generator a picture, on the CPU: the same seed starts from the same noise in any batch, on any device
        generators = [torch.Generator("cpu").manual_seed(task.seed) for task in tasks]
        with torch.inference_mode():
            images: list[Image] = self._pipeline(
                prompt=[task.prompt for task in tasks],
                num_inference_steps=self._variant.steps,
                guidance_scale=self._variant.guidance,
                width=self._variant.width,
                height=self._variant.height,
                generator=generators,
                callback_on_step_end=after_step,
            ).images
        return None if was_stopped else images


def load(variant: Variant, threads: int) -> DiffusersEngine:
    """Load the variant's pipeline.

    Raises:
        EngineFailed: the folder is missing or is not a diffusers model.
    """
    torch.set_num_threads(threads)
    diffusers_logging.set_verbosity_error()  # the tiny autoencoder is reported as unexpected at every load
    source = model_source(variant.model)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pipeline = DiffusionPipeline.from_pretrained(
                source, torch_dtype=torch.float16 if device == "cuda" else torch.float32
            )
        if variant.scheduler:
            scheduler = getattr(importlib.import_module("diffusers"), variant.scheduler)
            pipeline.scheduler = scheduler.from_config(pipeline.scheduler.config)
        pipeline.to(device)  # may find no memory
    except Exception as error:  # whatever a broken or missing model leads the libraries to
        raise EngineFailed(f"variant {variant.name!r}: cannot load {variant.model!r}: {error}") from error
    pipeline.set_progress_bar_config(disable=True)
    return DiffusersEngine(pipeline, variant)
