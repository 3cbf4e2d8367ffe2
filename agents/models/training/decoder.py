"""Go on training the decoder alone: the UNets depend on the encoder's latents only, so this can run beside them."""

from pathlib import Path

import click
import numpy as np
import torch
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny

from agents.models import renderer
from agents.models.training import pictures
from agents.models.training.autoencoder import round_trip
from agents.models.training.loop import Loop, device, rate, set_rate

_RATE = 1.5e-3
_NOISE = 0.18


@click.command(epilog="Example: python -m agents.models.training.decoder --work build/models --steps 1500")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/models"), show_default=True)
@click.option("--steps", default=1500, show_default=True, help="Batches to train on.")
@click.option("--batch", default=64, show_default=True)
@click.option("--seed", default=4, show_default=True)
def main(work: Path, steps: int, batch: int, seed: int) -> None:
    """Sharpen the decoder on the frozen encoder's latents; goes on from its checkpoint if there is one."""
    torch.manual_seed(seed)
    where = device()
    model = AutoencoderTiny.from_pretrained(work / "vae").to(where, memory_format=torch.channels_last)
    model.encoder.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.decoder.parameters(), lr=_RATE, weight_decay=1e-4, fused=True)
    parts = {"decoder": model.decoder, "optimizer": optimizer}
    loop = Loop(name="decoder", folder=work, steps=steps, batch=batch, parts=parts)

    def step(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        drawn = pictures.scenes(rng, batch)
        rendered = np.stack([renderer.render(scene, rng) for scene in drawn])
        weight = pictures.object_mask(drawn, rendered).to(where) * 1.5 + 0.6
        target = pictures.to_tensor(rendered).to(where, memory_format=torch.channels_last)
        set_rate(optimizer, _RATE, rate(index, steps, warm_up=50))
        with torch.autocast(where.type, torch.bfloat16):
            with torch.no_grad():
                latents = model.encoder(target).float()
            strength = torch.rand(batch, 1, 1, 1, device=where) * _NOISE
            error = (model.decoder(latents + strength * torch.randn_like(latents)).float() - target) * weight
        loss: torch.Tensor = error.abs().mean() + error.square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    loop.run(step)
    model.eval()
    loop.note(
        seed=seed,
        parameters=loop.size(model),
        round_trip=round_trip(model, seed + 1000),
        round_trip_noise_03=round_trip(model, seed + 1000, noise=0.3),
    )
    model.half().save_pretrained(work / "vae_sharp")


if __name__ == "__main__":
    main()
