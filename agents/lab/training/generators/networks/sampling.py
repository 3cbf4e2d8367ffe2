"""Generates images with networks that are not a pipeline yet, and counts facts that hold: the training figures."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from agents.lab.training.generators.networks import architectures, scene_batches
from agents.lab.training.generators.networks.diffusion import Denoiser
from agents.lab.training.loop import device, mixed_precision, scaled
from agents.lab.world import facts, scenes
from agents.lab.world.styles import POSTER, Style

STEPS: Final = 8  # how the small UNet is sampled for its figures
GUIDANCE: Final = 2.0
COUNT: Final = 192  # images a figure is counted on
FRESH: Final = 1_000_000  # beside a training's seed, so that its figures are of captions it did not draw
BATCH: Final = 32  # images generated at once


class Quality(NamedTuple):
    """Shares of facts that hold in images of fresh captions of the natural mix."""

    facts: float  # mean share of facts that hold
    all_facts: float  # share of images of which every fact holds


def plain(unet: UNet2DConditionModel) -> Denoiser:
    """A UNet as a function from mixed latents, times and token states to v."""

    def denoise(mixed: torch.Tensor, t: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        said: torch.Tensor = unet(mixed, t, states).sample
        return said

    return denoise


@torch.no_grad()
def sample(
    denoise: Denoiser,
    noise: torch.Tensor,
    states: torch.Tensor,
    empty: torch.Tensor,
    steps: int = STEPS,
    guidance: float = GUIDANCE,
) -> torch.Tensor:
    """Return latents [n, 8, 12, 12] after `steps` DDIM steps from pure `noise`; `empty` [1, 48, 128] is no prompt.

    With guidance the denoiser sees 2n rows: n without a prompt, then n with it.
    """
    scheduler = architectures.build_scheduler()
    scheduler.set_timesteps(steps)
    both = torch.cat([empty.expand_as(states), states])
    at = noise
    for t in scheduler.timesteps:
        with mixed_precision():
            if guidance == 1:
                v = denoise(at, t, states).float()
            else:
                blind, seeing = denoise(torch.cat([at, at]), t, both).float().chunk(2)
                v = blind + guidance * (seeing - blind)
        at = scheduler.step(v, t, at).prev_sample
    return at


def generate_images(
    denoise: Denoiser,
    frozen: architectures.Frozen,
    prompts: Sequence[str],
    seed: int,
    steps: int = STEPS,
    guidance: float = GUIDANCE,
) -> np.ndarray:
    """uint8 [n, 48, 48, 3], one batch: the same seed starts from the same noise."""
    where = device()
    generator = torch.Generator(where).manual_seed(seed)
    noise = torch.randn((len(prompts), *architectures.LATENT), generator=generator, device=where)
    empty, states = architectures.embed(frozen, [""], where), architectures.embed(frozen, list(prompts), where)
    latents = sample(denoise, noise, states, empty, steps, guidance)
    with torch.no_grad():
        return scene_batches.to_images(frozen.vae.decode(latents).sample)


def quality(
    denoise: Denoiser,
    frozen: architectures.Frozen,
    seed: int,
    style: Style = POSTER,
    steps: int = STEPS,
    guidance: float = GUIDANCE,
) -> Quality:
    """Return the share of fresh captions' facts that hold in the images, read in a style.

    The same seed means the same captions and the same noise, so that two networks can be compared.
    """
    rng = np.random.default_rng([seed, FRESH])
    captions = [scenes.sample(rng).caption for _ in range(scaled(COUNT))]
    reports = []
    for at in range(0, len(captions), BATCH):
        asked = captions[at : at + BATCH]
        generated = generate_images(denoise, frozen, asked, seed + at, steps, guidance)
        reports += [facts.check(c, image, style) for c, image in zip(asked, generated, strict=True)]
    return Quality(float(np.mean([r.share for r in reports])), float(np.mean([r.all_hold for r in reports])))
