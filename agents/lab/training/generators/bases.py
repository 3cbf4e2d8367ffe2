"""Base models in other styles: the small UNet, trained on with images drawn in that style."""

from pathlib import Path
from typing import Final

from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from agents.lab.training.generators.assemble import assemble
from agents.lab.training.generators.networks import architectures, sampling
from agents.lab.training.generators.networks.diffusion import BASE, Course, batch_of, fit, v_loss
from agents.lab.training.loop import device
from agents.lab.world.styles import BASES, POSTER, Style

NAMES: Final = tuple(name for name in BASES if name != POSTER.name)  # poster is the family itself
STEPS: Final = 600
_RATE: Final = 8e-4


def train(work: Path, models: Path, seed: int) -> None:
    """Train every other base model from `BASE` and write its folder below `models`."""
    for name in NAMES:
        train_one(work, BASES[name], seed)
        assemble(work, f"unet_{name}", models / name, architectures.autoencoder_of(work))


def train_one(work: Path, style: Style, seed: int) -> None:
    """Train the base model of a style into <work>/unet_<style>."""
    where = device()
    frozen = architectures.load_frozen(work, where)
    unet = UNet2DConditionModel.from_pretrained(work / BASE).to(where)
    unet.set_attn_processor(architectures.ExactAttention())
    course = Course(name=f"unet_{style.name}", work=work, seed=seed, steps=STEPS, rate=_RATE, warm_up=50)
    denoise = sampling.plain(unet)
    loop = fit(course, unet, lambda index: v_loss(denoise, batch_of(index, course, frozen, style), index, seed))
    reached = sampling.quality(denoise, frozen, seed, style=style)
    loop.note(base=BASE, style=style.name, **reached._asdict())
    loop.console.print(f"{style.name}: facts {reached.facts:.3f}, all facts {reached.all_facts:.3f}")
    unet.half().save_pretrained(work / f"unet_{style.name}")
