"""The `diffusers` engine: any folder or hub id that `DiffusionPipeline.from_pretrained` reads, on CPU or CUDA."""

import inspect
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from diffusers.utils import logging as diffusers_logging
from transformers.utils import logging as transformers_logging

from agents.engines import CannotRefine, EncodedPrompts, EngineFailed, Generated, GenerationTask, ShouldStop
from agents.engines.image_to_image import auto_image_to_image, image_to_image, strength_of, take_latents
from agents.engines.latent_spaces import latent_space_of
from agents.engines.pipelines import load_pipeline
from agents.engines.text_encoding import encode_ahead, prompts_of
from planner.catalog.entries import Variant
from planner.catalog.options import ResolvedOptions
from streams.store.latents import Latent, LatentSpace, UnfitLatent

log = logging.getLogger(__name__)


class DiffusersEngine:
    """An engine of one loaded pipeline with the variant's steps, guidance and size."""

    def __init__(self, pipeline: Any, variant: Variant) -> None:
        self._pipeline, self._variant = pipeline, variant
        self._over: Any = None  # the model as a pipeline that begins with an image, made when it is first needed
        self.latent_space = latent_space_of(pipeline)

    def encode(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> EncodedPrompts | None:
        """Encode the prompts of a call before it is made; None for a pipeline whose prompts are not encoded apart."""
        return encode_ahead(self._pipeline, tasks, how)

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop, *,
        wants_latents: bool = False, encoded: EncodedPrompts | None = None,
    ) -> Generated | None:  # fmt: skip
        was_stopped, latents = False, None
        pipeline, begin = self._beginning(tasks, how)

        def after_step(running: Any, _step: int, _timestep: Any, tensors: dict[str, Any]) -> dict[str, Any]:
            nonlocal was_stopped, latents
            latents = tensors.get("latents")  # after the last step: what the pipeline decodes
            if should_stop():
                was_stopped = running._interrupt = True
            return tensors

        # one generator an image, on the CPU: the same seed starts from the same noise in any batch, on any device
        generators = [torch.Generator("cpu").manual_seed(task.seed) for task in tasks]
        with torch.inference_mode():
            images = pipeline(
                **prompts_of(tasks, how, encoded),
                num_inference_steps=how.steps,
                guidance_scale=how.guidance,
                generator=generators,
                callback_on_step_end=after_step,
                **begin,
            ).images
        if was_stopped:
            return None
        if not wants_latents or self.latent_space is None or latents is None:
            return Generated(images, [None] * len(images))
        return Generated(images, [_latent(values, self.latent_space) for values in latents])

    def _beginning(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> tuple[Any, dict[str, Any]]:
        """The pipeline to call, and what it begins with: an empty image of a size, drafts, or latents."""
        size = {"width": how.width, "height": how.height}
        if not how.refine_from_step:
            return self._pipeline, size
        if self._over is None:
            self._over = image_to_image(self._pipeline)
            if self.latent_space:
                take_latents(self._over, self.latent_space.channels)
        takes = inspect.signature(self._over.__call__).parameters  # some know the size from the image alone
        begin = {name: value for name, value in size.items() if name in takes}
        strength = strength_of(how.refine_from_step, how.steps)
        return self._over, {**begin, "image": self._starts(tasks, how), "strength": strength}

    def _starts(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> Any:
        """What a pipeline takes as its images: all the drafts, or all the latents."""
        latents = [task.over for task in tasks if isinstance(task.over, Latent)]
        if not latents:
            return [task.over for task in tasks]
        assert len(latents) == len(tasks), f"{len(latents)} of {len(tasks)} tasks begin with latents, the others not"
        if self.latent_space is None:
            raise CannotRefine(f"{type(self._pipeline).__name__} cannot begin with a latent")
        for latent in latents:
            self.latent_space.check(latent, how.width, how.height)
        return torch.from_numpy(np.stack([latent.values for latent in latents]))


def _latent(values: torch.Tensor, space: LatentSpace) -> Latent | None:
    """One image's latent in the precision that it was generated in, or in single precision where numpy has none."""
    single = values if values.dtype == torch.float16 else values.float()
    try:
        return Latent(values=single.cpu().numpy().copy(), autoencoder=space.autoencoder)
    except UnfitLatent as error:
        log.warning("an image was generated from a latent that is not kept: %s", error)
        return None


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
        auto_image_to_image()  # now, and not within the first job that refines a draft
    engine = DiffusersEngine(pipeline, variant)
    if engine.latent_space is None:
        log.info("variant %r gives and takes no latents: %s", variant.name, type(pipeline).__name__)
    return engine
