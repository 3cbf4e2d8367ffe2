"""Train the autoencoder: 32 x 32 x 3 pictures to 8 x 8 x 8 latents and back."""

from pathlib import Path

import click
import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from torch import nn

from agents.models import facts, renderer
from agents.models.training import pictures
from agents.models.training.loop import Loop, device, rate, set_rate

_RATE = 2e-3
_NOISE = 0.18  # largest std of the noise on latents in training, so that the decoder forgives an imperfect UNet


def build() -> AutoencoderTiny:
    """AutoencoderTiny at a quarter of the resolution, 8 channels, 0.3 M parameters."""
    return AutoencoderTiny(
        encoder_block_out_channels=(32, 32, 32),
        decoder_block_out_channels=(32, 32, 32),
        num_encoder_blocks=(0, 1, 2),
        num_decoder_blocks=(2, 2, 1),
        latent_channels=8,
        scaling_factor=1.0,
    )


def _fold(model: AutoencoderTiny, norm: nn.BatchNorm2d) -> None:
    """Put the latents' normalisation into the last convolution, so that the saved model needs none."""
    last = [m for m in model.encoder.modules() if isinstance(m, nn.Conv2d)][-1]
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert last.bias is not None
    std = (norm.running_var + norm.eps).sqrt()
    last.weight.data /= std[:, None, None, None]
    last.bias.data = (last.bias.data - norm.running_mean) / std


@torch.inference_mode()
def round_trip(model: AutoencoderTiny, seed: int, count: int = 500, noise: float = 0.0) -> float:
    """Share of pictures of which every fact survives encoding and decoding."""
    rng = np.random.default_rng(seed)
    drawn = pictures.scenes(rng, count)
    batch = pictures.to_tensor(np.stack([renderer.render(scene, rng) for scene in drawn])).to(device())
    latents = model.encode(batch).latents
    out = pictures.to_pictures(model.decode(latents + noise * torch.randn_like(latents)).sample)
    return float(np.mean([facts.check(s.caption, p).all_hold for s, p in zip(drawn, out, strict=True)]))


@click.command(epilog="Example: python -m agents.models.training.autoencoder --work build/models --steps 2000")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/models"), show_default=True)
@click.option("--steps", default=2000, show_default=True, help="Batches to train on.")
@click.option("--batch", default=64, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(work: Path, steps: int, batch: int, seed: int) -> None:
    """Train the autoencoder shared by all variants; goes on from its checkpoint if there is one."""
    torch.manual_seed(seed)
    where = device()
    model = build().to(where, memory_format=torch.channels_last)
    norm = nn.BatchNorm2d(8, affine=False, momentum=0.02).to(where)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=1e-4)
    loop = Loop(
        name="autoencoder",
        folder=work,
        steps=steps,
        batch=batch,
        parts={"model": model, "norm": norm, "optimizer": optimizer},
    )

    def step(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        drawn = pictures.scenes(rng, batch)
        rendered = np.stack([renderer.render(scene, rng) for scene in drawn])
        weight = pictures.object_mask(drawn, rendered).to(where) * 1.5 + 0.6
        target = pictures.to_tensor(rendered).to(where, memory_format=torch.channels_last)
        set_rate(optimizer, _RATE, rate(index, steps, flat=0.45))
        with torch.autocast(where.type, torch.bfloat16):
            latents = norm(model.encoder(target).float())
            strength = torch.rand(batch, 1, 1, 1, device=where) * _NOISE
            error = (model.decoder(latents + strength * torch.randn_like(latents)).float() - target) * weight
        loss: torch.Tensor = error.abs().mean() + error.square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    loop.run(step)
    _fold(model, norm)
    model.eval()
    kept, kept_noisy = round_trip(model, seed + 1000), round_trip(model, seed + 1000, noise=0.3)
    loop.note(seed=seed, round_trip=kept, round_trip_noise_03=kept_noisy, parameters=loop.size(model))
    loop.console.print(f"autoencoder: all facts after a round trip {kept:.3f}, with latent noise 0.3 {kept_noisy:.3f}")
    model.half().save_pretrained(work / "vae")


if __name__ == "__main__":
    main()
