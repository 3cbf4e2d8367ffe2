"""Train the UNets of the family: XS, out of which light and the bases come, L and, grown out of that, XL."""

from pathlib import Path
from typing import Final

import torch
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from agents.lab.training.generators.networks import architectures, sampling
from agents.lab.training.generators.networks.diffusion import Course, batch_of, fit, v_loss
from agents.lab.training.generators.networks.net2net import deepen
from agents.lab.training.loop import device

STEPS: Final[dict[str, int]] = {"XS": 5000, "L": 5000, "XL": 2400}  # batches of 64
FORERUNNERS: Final[dict[str, str]] = {"XL": "unet_L"}  # size -> what it is grown out of
_RATES: Final[dict[str, float]] = {"XS": 1.5e-3, "L": 1.5e-3, "XL": 1e-3}


def train(work: Path, models: Path, seed: int, *, size: str) -> None:  # noqa: ARG001 - `assemble` ships it
    """Train the UNet of one size on v-prediction into <work>/unet_<size>."""
    torch.manual_seed(seed)
    frozen = architectures.load_frozen(work, device())
    unet, forerunner = architectures.build_unet(size), FORERUNNERS.get(size)
    if forerunner:
        deepen(UNet2DConditionModel.from_pretrained(work / forerunner), unet)
    unet = unet.to(device())  # not compiled: compiling took longer here than it saved
    unet.set_attn_processor(architectures.ExactAttention())
    course = Course(name=f"unet_{size}", work=work, seed=seed, steps=STEPS[size], rate=_RATES[size])
    denoise = sampling.plain(unet)
    loop = fit(course, unet, lambda index: v_loss(denoise, batch_of(index, course, frozen), index, seed))
    if forerunner:
        loop.note(base=forerunner)
    unet.half().save_pretrained(work / f"unet_{size}")
