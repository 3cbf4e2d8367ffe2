"""The pipeline that begins with a draft or a latent: a loaded one's own parts as diffusers' image-to-image pipeline."""

import functools
import math
import warnings
from typing import Any

import torch
from diffusers.utils.torch_utils import randn_tensor

from agents.engines import CannotRefine
from agents.engines.families import signature_of


def image_to_image(pipeline: Any) -> Any:
    """Return the image-to-image pipeline of a loaded pipeline's own components: no memory, no loading.

    It takes latents of its autoencoder as it takes images, with a batch of one kind in each call.

    Raises:
        CannotRefine: diffusers has none for this kind of model.
    """
    try:
        over = auto_image_to_image().from_pipe(pipeline)
    except ValueError as error:  # no such pipeline for this kind of model
        raise CannotRefine(f"{type(pipeline).__name__} cannot begin with an image: {error}") from error
    if "strength" not in signature_of(over).takes:
        raise CannotRefine(f"{type(pipeline).__name__} takes images to refer to, and cannot begin with one")
    over.set_progress_bar_config(disable=True)
    return over


def take_latents(over: Any, channels: int) -> Any:
    """Let an image-to-image pipeline take latents of `channels` channels (not 3, an image's) without encoding them.

    diffusers' own pipelines recognise latents by 4 channels and encode any others as if they were images.
    """
    kind: Any = type(over)
    over.image_processor.register_to_config(vae_latent_channels=channels)
    over.__class__ = _taking_latents(kind)
    return over


@functools.cache
def _taking_latents(kind: Any) -> type:
    """Return a subclass of a kind of image-to-image pipeline that only adds noise to latents of its autoencoder."""

    def prepare_latents(
        pipeline: Any, image: torch.Tensor, timestep: Any, batch_size: int, per_prompt: int, dtype: torch.dtype,
        device: torch.device, generator: Any = None, *more: Any,
    ) -> torch.Tensor:  # fmt: skip
        if image.shape[1] != pipeline.vae.config.latent_channels:
            own: torch.Tensor = kind.prepare_latents(
                pipeline, image, timestep, batch_size, per_prompt, dtype, device, generator, *more
            )
            return own
        latents = image.to(device, dtype)
        noise = randn_tensor(latents.shape, generator=generator, device=device, dtype=dtype)
        noised: torch.Tensor = pipeline.scheduler.add_noise(latents, noise, timestep)
        return noised

    return type(kind.__name__, (kind,), {"prepare_latents": prepare_latents})


def strength_of(refine_from_step: int, steps: int) -> float:
    """Return the `strength` with which an image-to-image pipeline skips exactly `refine_from_step` of `steps` steps.

    Stable Diffusion's take int(steps * strength) steps; rounding loses one for some pairs (15 of 22, for example).
    """
    strength = (steps - refine_from_step) / steps
    return strength if int(steps * strength) == steps - refine_from_step else math.nextafter(strength, 1)


@functools.cache
def auto_image_to_image() -> Any:
    """Imports every pipeline of diffusers: a second, which one-step variants, never refined drafts, do without."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of how one of them, for audio, is written
        from diffusers import AutoPipelineForImage2Image
    return AutoPipelineForImage2Image
