"""Go on training the decoder alone: the UNets depend on the encoder's latents only, so this can run beside them."""

from pathlib import Path
from typing import Final

import torch
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny

from agents.lab.training.generators.autoencoder import BATCH, finish, restoring_loss
from agents.lab.training.loop import Loop, descend, device, rate, set_rate

STEPS: Final = 1500
_RATE: Final = 1.5e-3


def train(work: Path, models: Path, seed: int) -> None:  # noqa: ARG001 - it ships as a part of the levels
    """Sharpen the decoder on the frozen encoder's latents into <work>/vae_sharp; goes on from its checkpoint."""
    refine("decoder", AutoencoderTiny.from_pretrained(work / "vae"), work, seed, steps=STEPS, into="vae_sharp")


def refine(name: str, model: AutoencoderTiny, work: Path, seed: int, *, steps: int, into: str) -> None:
    """Train the decoder of `model` on its frozen encoder's latents for `steps` batches, and save it in <work>/<into>.

    `name` is that of its checkpoint and note, from which it goes on.
    """
    torch.manual_seed(seed)
    model = model.to(device(), memory_format=torch.channels_last)
    model.encoder.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.decoder.parameters(), lr=_RATE, weight_decay=1e-4, fused=True)
    parts = {"decoder": model.decoder, "optimizer": optimizer}
    loop = Loop(name=name, folder=work, steps=steps, batch=BATCH, parts=parts)

    @torch.no_grad()
    def encode(images: torch.Tensor) -> torch.Tensor:
        latents: torch.Tensor = model.encoder(images).float()
        return latents

    def step(index: int) -> torch.Tensor:
        set_rate(optimizer, _RATE, rate(index, steps, warm_up=50))
        return descend(restoring_loss(encode, model.decoder, seed, index), optimizer)

    loop.run(step)
    finish(loop, model, seed, work / into)
