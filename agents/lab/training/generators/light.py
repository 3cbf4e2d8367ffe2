"""Train light's UNet: the small one without what a single step has no use for, trained on at that step's time alone.

One step begins at pure noise, of which the image knows nothing, so what is read on the way down is of no use; the
prompt comes in on the way up.
"""

from pathlib import Path
from typing import Any, Final

from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

from agents.lab.training.generators.networks import architectures, sampling
from agents.lab.training.generators.networks.diffusion import BASE, LAST_TIME, Course, batch_of, fit, v_loss
from agents.lab.training.loop import device

NAME: Final = "unet_light"
STEPS: Final = 1500  # batches of 64
_RATE: Final = 1e-3
_LEFT_OUT: Final[dict[str, Any]] = {"mid_block_type": None, "down_block_types": ("DownBlock2D", "DownBlock2D")}


def train(work: Path, models: Path, seed: int) -> None:  # noqa: ARG001 - `assemble` ships it
    """Train what is left of `BASE` into <work>/unet_light; notes the facts it reaches in one step."""
    frozen = architectures.load_frozen(work, device())
    unet = pruned(UNet2DConditionModel.from_pretrained(work / BASE)).to(device())
    unet.set_attn_processor(architectures.ExactAttention())
    denoise = sampling.plain(unet)
    course = Course(name=NAME, work=work, seed=seed, steps=STEPS, rate=_RATE, warm_up=50)
    loop = fit(course, unet, lambda index: v_loss(denoise, batch_of(index, course, frozen), index, seed, LAST_TIME))
    reached = sampling.quality(denoise, frozen, seed, steps=1, guidance=1.0)
    loop.note(base=BASE, **reached._asdict())
    loop.console.print(f"light: facts {reached.facts:.3f}, all facts {reached.all_facts:.3f} in one step")
    unet.half().save_pretrained(work / NAME)


def pruned(full: UNet2DConditionModel) -> UNet2DConditionModel:
    """The UNet without its middle and without attention on the way down; the other parts keep their weights."""
    left: UNet2DConditionModel = UNet2DConditionModel.from_config({**full.config, **_LEFT_OUT})
    weights = full.state_dict()
    left.load_state_dict({name: weights[name] for name in left.state_dict()})
    return left
