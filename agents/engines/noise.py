"""Noise of a seed alone, whatever the precision that an image is generated in.

Pipelines draw noise in their own precision. Older releases of torch (2.11, but not 2.15) draw other numbers in half
precision than in single, so that a seed on CUDA would start another image than on a CPU.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from agents.engines.latent_spaces import KINDS

# whose latents are [n, channels of the denoiser, height, width] of an autoencoder; others draw their own
NOISED: Final = frozenset((*KINDS, *(kind.replace("Pipeline", "ControlNetPipeline") for kind in KINDS)))


def sample_noise(shape: Sequence[int], generators: Sequence[torch.Generator]) -> torch.Tensor:
    """Sample noise of a shape from each generator, [n, *shape], in single precision, as diffusers does."""
    return torch.stack([torch.randn(shape, generator=each) for each in generators])


def starting_noise(pipeline: Any, begin: Mapping[str, Any], generators: Sequence[torch.Generator]) -> dict[str, Any]:
    """Return `latents` for a call that begins from noise, drawn in single precision and rounded to the pipeline's.

    `begin`: what else the call begins with. Empty where a pipeline draws the same itself, or is of another kind.
    """
    dtype = pipeline.dtype
    if dtype == torch.float32 or type(pipeline).__name__ not in NOISED or "width" not in begin:
        return {}
    scale = pipeline.vae_scale_factor
    shape = (pipeline.unet.config.in_channels, begin["height"] // scale, begin["width"] // scale)
    return {"latents": sample_noise(shape, generators).to(pipeline._execution_device, dtype)}
