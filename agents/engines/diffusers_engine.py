"""The `diffusers` engine: any folder or hub id that `DiffusionPipeline.from_pretrained` reads, on CPU or CUDA."""

from collections.abc import Sequence
from typing import Any

import torch
from diffusers.utils import logging as diffusers_logging
from PIL.Image import Image
from transformers.utils import logging as transformers_logging

from agents.engines import EngineFailed, PaintTask, ShouldStop
from agents.engines.pipelines import load_pipeline
from planner.catalog import Variant
from planner.options import Settled


class DiffusersEngine:
    """One loaded pipeline with the variant's steps, guidance and size."""

    def __init__(self, pipeline: Any, variant: Variant) -> None:
        self._pipeline, self._variant = pipeline, variant

    def paint(self, tasks: Sequence[PaintTask], how: Settled, should_stop: ShouldStop) -> list[Image] | None:
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
                negative_prompt=[how.negative_prompt] * len(tasks),
                num_inference_steps=how.steps,
                guidance_scale=how.guidance,
                width=how.width,
                height=how.height,
                generator=generators,
                callback_on_step_end=after_step,
            ).images
        return None if was_stopped else images


def load(variant: Variant, threads: int) -> DiffusersEngine:
    """Load the variant's pipeline.

    Raises:
        EngineFailed: the model, its other weights or the device is missing, or it is not a diffusers model.
    """
    torch.set_num_threads(threads)
    diffusers_logging.set_verbosity_error()  # the tiny autoencoder is reported as unexpected at every load
    for libraries in (diffusers_logging, transformers_logging):
        libraries.disable_progress_bar()  # their bars would stand between the lines of the log
    try:
        pipeline = load_pipeline(variant)
    except Exception as error:  # whatever a broken or missing model leads the libraries to
        raise EngineFailed(f"variant {variant.name!r}: cannot load {variant.model!r}: {error}") from error
    pipeline.set_progress_bar_config(disable=True)
    return DiffusersEngine(pipeline, variant)
