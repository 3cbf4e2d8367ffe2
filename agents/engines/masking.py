"""Generates an image anew where a mask is white, with any image-to-image pipeline; all other pixels stay as they were.

After each step what lies outside the mask is set to the image again, noised as far as the next step expects. diffusers'
own pipelines for this take autoencoders of 4 channels alone. Source: RePaint, section 4.1, without its resampling.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from agents.engines import CannotRefine, GenerationTask
from agents.engines.latent_spaces import KINDS
from agents.engines.noise import sample_noise


class Masked:
    """The masks of one call's tasks: steps between, and the pixels in the end."""

    def __init__(self, tasks: Sequence[GenerationTask]) -> None:
        self._tasks = tasks
        self._latents: torch.Tensor | None = None  # of the images to begin with
        self._noise: torch.Tensor | None = None
        self._mask: torch.Tensor | None = None  # float [n, 1, h, w] in latent pixels; 1: generated anew

    def after_step(self, pipeline: Any, timestep: Any, latents: torch.Tensor) -> torch.Tensor:
        """Return the latents of the next step."""
        if self._latents is None or self._noise is None or self._mask is None:
            self._begin(pipeline, latents)
        assert self._latents is not None
        assert self._noise is not None
        assert self._mask is not None
        timesteps = pipeline.scheduler.timesteps
        following = int((timesteps == timestep).nonzero()[-1]) + 1
        kept = self._latents
        if following < len(timesteps):
            kept = pipeline.scheduler.add_noise(self._latents, self._noise, timesteps[following].reshape(1))
        return (self._mask * latents + (1 - self._mask) * kept).to(latents.dtype)

    def finish(self, images: Sequence[Image.Image]) -> list[Image.Image]:
        """Return the images with the pixels outside the masks as they were."""
        made = []
        for task, image in zip(self._tasks, images, strict=True):
            assert task.image is not None
            made.append(Image.composite(image, task.image, _mask_of(task)))
        return made

    def _begin(self, pipeline: Any, latents: torch.Tensor) -> None:
        vae, device = pipeline.vae, latents.device
        pixels = pipeline.image_processor.preprocess([task.image for task in self._tasks]).to(device, vae.dtype)
        encoded = vae.encode(pixels)
        found = encoded.latents if hasattr(encoded, "latents") else encoded.latent_dist.mode()
        self._latents = (found * vae.config.scaling_factor).to(latents.dtype)
        generators = [torch.Generator("cpu").manual_seed(task.seed) for task in self._tasks]
        self._noise = sample_noise(latents.shape[1:], generators).to(device, latents.dtype)
        size = (latents.shape[-1], latents.shape[-2])
        masks = [np.asarray(_mask_of(task).resize(size, Image.Resampling.BOX), np.float32) for task in self._tasks]
        self._mask = (torch.from_numpy(np.stack(masks))[:, None] > 0).to(device, latents.dtype)


def check_masked(pipeline: Any) -> None:
    """Raise CannotRefine for a pipeline whose latents are not known to be blended so."""
    kinds = {kind.replace("Pipeline", "") for kind in KINDS}
    config = pipeline.vae.config
    if type(pipeline).__name__.replace("Pipeline", "") not in kinds or getattr(config, "latents_mean", None):
        raise CannotRefine(f"{type(pipeline).__name__} does not generate a part of an image anew")


def _mask_of(task: GenerationTask) -> Image.Image:
    assert task.mask is not None, "a task of a call with masks has none"
    return task.mask
