"""The `diffusers` engine: any folder or hub id that `DiffusionPipeline.from_pretrained` reads, on CPU or CUDA."""

import functools
import inspect
import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from diffusers.utils import logging as diffusers_logging
from PIL.Image import Image
from transformers.utils import logging as transformers_logging

from agents.engines import CannotRefine, EngineFailed, GenerationTask, ShouldStop
from agents.engines.pipelines import load_pipeline
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions


class DiffusersEngine:
    """An engine of one loaded pipeline with the variant's steps, guidance and size."""

    def __init__(self, pipeline: Any, variant: Variant) -> None:
        self._pipeline, self._variant = pipeline, variant
        self._over_drafts: Any = None  # the same model as an image-to-image pipeline, made when it is first needed

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop
    ) -> list[Image] | None:
        was_stopped = False
        pipeline, begin = self._beginning(tasks, how)

        def after_step(running: Any, _step: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
            nonlocal was_stopped
            if should_stop():
                was_stopped = running._interrupt = True
            return tensors

        # one generator an image, on the CPU: the same seed starts from the same noise in any batch, on any device
        generators = [torch.Generator("cpu").manual_seed(task.seed) for task in tasks]
        with torch.inference_mode():
            images: list[Image] = pipeline(
                prompt=[task.prompt for task in tasks],
                negative_prompt=[how.negative_prompt] * len(tasks),
                num_inference_steps=how.steps,
                guidance_scale=how.guidance,
                generator=generators,
                callback_on_step_end=after_step,
                **begin,
            ).images
        return None if was_stopped else images

    def _beginning(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> tuple[Any, dict[str, Any]]:
        """The pipeline to call, and what it begins with: an empty image of a size, or the drafts."""
        size = {"width": how.width, "height": how.height}
        if not how.refine_from_step:
            return self._pipeline, size
        if self._over_drafts is None:
            self._over_drafts = _image_to_image(self._pipeline)
        takes = inspect.signature(self._over_drafts.__call__).parameters  # some know the size from the image alone
        begin = {name: value for name, value in size.items() if name in takes}
        strength = strength_of(how.refine_from_step, how.steps)
        return self._over_drafts, {**begin, "image": [task.over for task in tasks], "strength": strength}


def strength_of(refine_from_step: int, steps: int) -> float:
    """The `strength` with which an image-to-image pipeline skips exactly so many of the steps.

    Stable Diffusion's take int(steps * strength) steps, which rounding makes one too few for some (15 of 22, for one).
    """
    strength = (steps - refine_from_step) / steps
    return strength if int(steps * strength) == steps - refine_from_step else math.nextafter(strength, 1)


def _image_to_image(pipeline: Any) -> Any:
    """The pipeline's own components in the image-to-image pipeline that diffusers has for it: no memory, no loading."""
    try:
        over_drafts = _auto_image_to_image().from_pipe(pipeline)
    except ValueError as error:  # no such pipeline for this kind of model
        raise CannotRefine(f"{type(pipeline).__name__} cannot begin with an image: {error}") from error
    over_drafts.set_progress_bar_config(disable=True)
    return over_drafts


@functools.cache
def _auto_image_to_image() -> Any:
    """Imports every pipeline of diffusers: a second, which one-step variants, never refined drafts, do without."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of how one of them, for audio, is written
        from diffusers import AutoPipelineForImage2Image
    return AutoPipelineForImage2Image


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
    if variant.steps > 1:
        _auto_image_to_image()  # now, and not within the first job that refines a draft
    return DiffusersEngine(pipeline, variant)
