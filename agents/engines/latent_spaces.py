"""The latents that a loaded pipeline gives and takes; equal digests of the autoencoder mean exchangeable latents."""

import hashlib
import json
from typing import Any, Final

import torch

from streams.store.latents import LatentSpace

# these decode what their last step leaves, and their image-to-image pipelines begin with it; others pack their latents
# (Flux), or decode something else (latent consistency models), and are not looked at
KINDS: Final = ("StableDiffusionPipeline", "StableDiffusionXLPipeline")
IMAGE_CHANNELS: Final = 3  # a latent of 3 channels would look like an image
MAX_VALUES: Final = 4096  # of a tensor that are looked at


def latent_space_of(pipeline: Any) -> LatentSpace | None:
    """Return the space of a pipeline's latents; None for a kind whose latents are neither given nor taken."""
    if type(pipeline).__name__ not in KINDS or pipeline.vae.config.latent_channels == IMAGE_CHANNELS:
        return None
    return LatentSpace(digest_of(pipeline.vae), pipeline.vae.config.latent_channels, pipeline.vae_scale_factor)


def digest_of(autoencoder: Any) -> str:
    """Return a digest of an autoencoder: of its configuration, and of evenly spaced values of each of its tensors.

    It goes by what is loaded, wherever that came from, and rounds to half precision: a worker with a CUDA device and
    one without agree. A change that leaves every value that it looks at as it was is not seen. Equal models that are
    loaded as bfloat16, or by a release of diffusers that knows other options, may have another digest: their latents
    are not shared.
    """
    config = {name: value for name, value in autoencoder.config.items() if not name.startswith("_")}
    about = json.dumps([type(autoencoder).__name__, config], sort_keys=True, default=str)
    digest = hashlib.sha256(about.encode())
    for name, weights in sorted(autoencoder.state_dict().items()):
        digest.update(f"{name} {list(weights.shape)}".encode())
        digest.update(_values(weights).to("cpu", torch.float16).numpy().tobytes())
    return digest.hexdigest()[:16]


def _values(weights: torch.Tensor) -> torch.Tensor:
    """At most MAX_VALUES values of a tensor, the same in whatever order they lie in memory."""
    spacing = -(-weights.numel() // MAX_VALUES) or 1
    at = torch.arange(0, weights.numel(), spacing, device=weights.device)
    return weights[torch.unravel_index(at, weights.shape)]
