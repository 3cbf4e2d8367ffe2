"""A denoiser that compiles in seconds, and as much of a pipeline as calls it."""

from typing import Any

import torch

SIZE = 8  # px of a latent


class Denoiser(torch.nn.Module):
    """As much of a UNet as its caller sees."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.config = {"channels": 4}
        self.layer = torch.nn.Conv2d(4, 4, 3, padding=1)

    def forward(
        self, sample: torch.Tensor, timestep: torch.Tensor, residual: torch.Tensor | None = None
    ) -> tuple[torch.Tensor]:
        if residual is not None:
            sample = sample + residual
        return (torch.nn.functional.silu(self.layer(sample)) * torch.cos(timestep.float()) + sample,)


class Pipeline:
    def __init__(self, unet: Any) -> None:
        self.unet = unet

    def generate(self, images: int, size: int = SIZE, **more: torch.Tensor) -> torch.Tensor:
        sample = torch.randn(images, 4, size, size, generator=torch.Generator().manual_seed(images))
        with torch.inference_mode():
            for timestep in torch.tensor([999, 1]):
                (sample,) = self.unet(sample, timestep, **more)
        return sample
