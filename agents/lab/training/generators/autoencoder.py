"""Train the autoencoder: 48 x 48 x 3 images to 12 x 12 x 8 latents and back."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from torch import nn

from agents.lab.training.generators.networks import scene_batches
from agents.lab.training.loop import Loop, descend, device, mixed_precision, rate, scaled, set_rate
from agents.lab.world import facts, renderer

STEPS: Final = 3900
BATCH: Final = 64
_RATE: Final = 2e-3
_NOISE: Final = 0.18  # largest std of the noise on latents in training, so that the decoder forgives an imperfect UNet
_CHANNELS: Final = 8  # of the latents


def build() -> AutoencoderTiny:
    """AutoencoderTiny at a quarter of the resolution, 8 channels, 0.3 M parameters."""
    return AutoencoderTiny(
        encoder_block_out_channels=(32, 32, 32),
        decoder_block_out_channels=(32, 32, 32),
        num_encoder_blocks=(0, 1, 2),
        num_decoder_blocks=(2, 2, 1),
        latent_channels=_CHANNELS,
        scaling_factor=1.0,
    )


def restoring_loss(
    encode: Callable[[torch.Tensor], torch.Tensor], decoder: nn.Module, seed: int, index: int
) -> torch.Tensor:
    """Return the loss between the crops of training step `index` and their noised latents, decoded."""
    where = device()
    drawn = scene_batches.crops(np.random.default_rng([seed, index]), BATCH)
    target, weight = (part.to(where, memory_format=torch.channels_last) for part in drawn)
    with mixed_precision():
        latents = encode(target)
        strength = torch.rand(BATCH, 1, 1, 1, device=where) * _NOISE
        error = (decoder(latents + strength * torch.randn_like(latents)).float() - target) * weight
    loss: torch.Tensor = error.abs().mean() + error.square().mean()
    return loss


def train(work: Path, models: Path, seed: int) -> None:  # noqa: ARG001 - it ships as a part of the levels
    """Train the autoencoder shared by all variants into <work>/vae; goes on from its checkpoint if there is one."""
    torch.manual_seed(seed)
    where = device()
    model = build().to(where, memory_format=torch.channels_last)
    norm = nn.BatchNorm2d(_CHANNELS, affine=False, momentum=0.02).to(where)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=1e-4)
    parts = {"model": model, "norm": norm, "optimizer": optimizer}
    loop = Loop(name="autoencoder", folder=work, steps=STEPS, batch=BATCH, parts=parts)

    def step(index: int) -> torch.Tensor:
        set_rate(optimizer, _RATE, rate(index, STEPS, flat=0.45))
        return descend(restoring_loss(lambda x: norm(model.encoder(x).float()), model.decoder, seed, index), optimizer)

    loop.run(step)
    _fold(model, norm)
    finish(loop, model, seed, work / "vae")


def finish(loop: Loop, model: AutoencoderTiny, seed: int, folder: Path) -> None:
    """Measure the round trip, note it, and save in fp16."""
    model.eval()
    kept, kept_noisy = round_trip(model, seed + 1000), round_trip(model, seed + 1000, noise=0.3)
    loop.note(seed=seed, parameters=loop.size(model), round_trip=kept, round_trip_noise_03=kept_noisy)
    loop.console.print(f"{loop.name}: all facts after a round trip {kept:.3f}, with latent noise 0.3 {kept_noisy:.3f}")
    model.half().save_pretrained(folder)


@torch.inference_mode()
def round_trip(model: AutoencoderTiny, seed: int, count: int = 500, noise: float = 0.0) -> float:
    """Share of images of which every fact survives encoding and decoding."""
    rng = np.random.default_rng(seed)
    drawn = scene_batches.sample_scenes(rng, scaled(count, least=8))
    batch = scene_batches.to_tensor(np.stack([renderer.render(scene, rng) for scene in drawn])).to(device())
    latents = model.encode(batch).latents
    out = scene_batches.to_images(model.decode(latents + noise * torch.randn_like(latents)).sample)
    return float(np.mean([facts.check(s.caption, p).all_hold for s, p in zip(drawn, out, strict=True)]))


def _fold(model: AutoencoderTiny, norm: nn.BatchNorm2d) -> None:
    """Put the latents' normalisation into the last convolution, so that the saved model needs none."""
    last = [m for m in model.encoder.modules() if isinstance(m, nn.Conv2d)][-1]
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert last.bias is not None
    std = (norm.running_var + norm.eps).sqrt()
    last.weight.data /= std[:, None, None, None]
    last.bias.data = (last.bias.data - norm.running_mean) / std
