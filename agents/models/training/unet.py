"""Train the UNets of the family: XS for quick sketches, L for the full painting."""

from pathlib import Path
from typing import Final

import torch

from agents.models.training import networks, sampling
from agents.models.training.diffusion import Course, batch_of, fit, v_loss
from agents.models.training.loop import device

STEPS: Final[dict[str, int]] = {"XS": 5000, "L": 5000}  # batches of 64
_RATE: Final = 1.5e-3


def train(work: Path, models: Path, seed: int, *, size: str) -> None:  # noqa: ARG001 - `assemble` ships it
    """Train the UNet of one size on v-prediction into <work>/unet_<size>."""
    torch.manual_seed(seed)
    frozen = networks.load_frozen(work, device())
    unet = networks.build_unet(size).to(device())  # not compiled: compiling took longer here than it saved
    unet.set_attn_processor(networks.ExactAttention())
    course = Course(name=f"unet_{size}", work=work, seed=seed, steps=STEPS[size], rate=_RATE)
    denoise = sampling.plain(unet)
    fit(course, unet, lambda index: v_loss(denoise, batch_of(index, course, frozen), index, seed))
    unet.half().save_pretrained(work / f"unet_{size}")
