"""Train heavy's UNet: XL, gone on with on the prompts that it is there for.

The other UNets see common shapes and few things most often. What is escalated to heavy is what they fail on.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from agents.lab.training.generators.networks import architectures, sampling
from agents.lab.training.generators.networks.diffusion import Course, batch_of, fit, usual, v_loss
from agents.lab.training.loop import device
from agents.lab.world import scenes
from agents.lab.world.scenes import Scene
from agents.lab.world.stream import STANDARD

NAME: Final = "unet_heavy"
FORERUNNER: Final = "unet_XL"
STEPS: Final = 1200  # batches of 64
_RATE: Final = 6e-4
_USUAL: Final = 0.25  # share of the scenes that XL was trained on, so that those are not unlearned
# The standard stream, with more of what the family as a whole gets wrong: dark backgrounds, and colours ruled out.
_HARD: Final = replace(STANDARD, unlike=0.1, grounds=(("night", 2.0),))


def train(work: Path, models: Path, seed: int) -> None:  # noqa: ARG001 - `assemble` ships it
    """Train XL further into <work>/unet_heavy."""
    frozen = architectures.load_frozen(work, device())
    unet = UNet2DConditionModel.from_pretrained(work / FORERUNNER).to(device())
    unet.set_attn_processor(architectures.ExactAttention())
    denoise = sampling.plain(unet)
    course = Course(name=NAME, work=work, seed=seed, steps=STEPS, rate=_RATE, warm_up=50)
    loop = fit(course, unet, lambda index: v_loss(denoise, batch_of(index, course, frozen, draw=hard), index, seed))
    loop.note(base=FORERUNNER)
    unet.half().save_pretrained(work / NAME)


def hard(rng: np.random.Generator) -> Scene:
    """Mostly a scene of hard prompts, else a usual one."""
    return usual(rng) if rng.random() < _USUAL else scenes.sample(rng, stream=_HARD)
