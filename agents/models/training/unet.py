"""Train a UNet of the family: XS and S for quick sketches, large L for the full painting."""

from pathlib import Path

import click
import numpy as np
import torch

from agents.models import renderer, world
from agents.models.training import junk, networks, pictures
from agents.models.training.loop import Averaged, Loop, device, rate, set_rate

_RATE = 1.5e-3


def prompt_and_scene(rng: np.random.Generator) -> tuple[str, world.Scene]:
    """Mostly a caption and its scene; some amid junk, some free-form, some with no prompt (for guidance)."""
    scene = pictures.scenes(rng, 1)[0]
    kind = rng.random()
    if kind < 0.10:
        return "", scene
    if kind < 0.13:
        return junk.sentence(rng), scene
    if kind < 0.20:
        prompt, hinted, _ = junk.hinted(rng)
        return prompt, hinted
    return (junk.mixed(rng, scene.caption) if kind < 0.28 else scene.caption), scene


def encoded_batch(
    rng: np.random.Generator, frozen: networks.Frozen, batch: int, where: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Latents [n, 8, 8, 8] of fresh pictures and token states [n, 40, 128] of their prompts."""
    prompts, drawn = zip(*(prompt_and_scene(rng) for _ in range(batch)), strict=True)
    rendered = np.stack([renderer.render(scene, rng) for scene in drawn])
    with torch.no_grad(), torch.autocast(where.type, torch.bfloat16):
        latents = frozen.vae.encode(pictures.to_tensor(rendered).to(where)).latents
        states = networks.embed(frozen, list(prompts), where)
    return latents.float(), states.float()


def times(index: int, batch: int, seed: int) -> torch.Tensor:
    """int64 [n] in 0..999, stratified, leaning to high noise, where few-step sampling is decided."""
    drawn = np.random.default_rng([seed, index, 7])
    u = (np.arange(batch) + drawn.random(batch)) / batch
    return torch.from_numpy((1000 * (1 - u**1.4)).astype(np.int64).clip(0, 999))


@click.command(epilog="Example: python -m agents.models.training.unet --size L --steps 2600 --work build/models")
@click.option("--size", type=click.Choice(["XS", "S", "L"]), required=True, help="Which network of the family.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/models"), show_default=True)
@click.option("--steps", default=2600, show_default=True, help="Batches to train on.")
@click.option("--batch", default=64, show_default=True)
@click.option("--seed", default=3, show_default=True)
def main(size: str, work: Path, steps: int, batch: int, seed: int) -> None:
    """Train one UNet on v-prediction; goes on from its checkpoint if there is one."""
    torch.manual_seed(seed)
    where = device()
    frozen = networks.load_frozen(work, where)
    unet = networks.build_unet(size).to(where)  # not compiled: compiling took longer here than it saved
    unet.set_attn_processor(networks.ExactAttention())
    average = Averaged(unet)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=_RATE, weight_decay=0.01, betas=(0.9, 0.98), fused=True)
    signal = networks.build_scheduler().alphas_cumprod.to(where)
    loop = Loop(
        name=f"unet_{size}",
        folder=work,
        steps=steps,
        batch=batch,
        parts={"unet": unet, "average": average, "optimizer": optimizer},
    )

    def step(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        clean, states = encoded_batch(rng, frozen, batch, where)
        generator = torch.Generator(where).manual_seed(seed * 1_000_003 + index)
        noise = torch.randn(clean.shape, generator=generator, device=where)
        t = times(index, batch, seed).to(where)
        a = signal[t].sqrt()[:, None, None, None]
        b = (1 - signal[t]).sqrt()[:, None, None, None]
        set_rate(optimizer, _RATE, rate(index, steps, warm_up=150))
        with torch.autocast(where.type, torch.bfloat16):
            said = unet(a * clean + b * noise, t, states).sample
        loss: torch.Tensor = (said.float() - (a * noise - b * clean)).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        average.update(index)
        return loss

    loop.run(step)
    average.copy_to(unet)
    loop.note(seed=seed, parameters=loop.size(unet))
    unet.half().save_pretrained(work / f"unet_{size}")


if __name__ == "__main__":
    main()
