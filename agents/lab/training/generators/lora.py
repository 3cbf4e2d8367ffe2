"""Style adapters for the base model poster: LoRA by PEFT, in the format that `pipeline.load_lora_weights` reads."""

from pathlib import Path
from typing import Final

import torch
from diffusers import StableDiffusionPipeline
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict

from agents.lab.training.generators.networks import architectures, sampling
from agents.lab.training.generators.networks.diffusion import BASE, Course, batch_of, fit, only, v_loss
from agents.lab.training.loop import device
from agents.lab.world.styles import ADAPTERS, Style

STEPS: Final = 300
RANK: Final = 8
FILE: Final = "pytorch_lora_weights.safetensors"  # the name diffusers looks for
_RATE: Final = 3e-3
# The convolutions too: colours and grounds are laid down there, and attention is at 6 x 6 only. UNet XS, dusk, 120
# batches of 32: v-loss .237 without them (rate 4e-3), .210 with (3e-3); XS itself has .211 in poster.
_TARGETS: Final = [
    *("to_q", "to_k", "to_v", "to_out.0", "proj_in", "proj_out", "ff.net.0.proj", "ff.net.2"),
    *("conv_in", "conv1", "conv2", "time_emb_proj", "conv_out"),
]
_WEIGHTS: Final = (0.5, 1.0)  # at which the restyled facts are counted


def train(work: Path, models: Path, seed: int) -> None:
    """Train every adapter from `BASE` into <models>/loras/<name>."""
    for style in ADAPTERS.values():
        train_one(work, models, style, seed)


def train_one(work: Path, models: Path, style: Style, seed: int) -> None:
    """Train the adapter of a style; notes the facts it keeps against what the bare UNet reaches in poster."""
    torch.manual_seed(seed)  # the adapter's first matrices are random
    where = device()
    frozen = architectures.load_frozen(work, where)
    unet = UNet2DConditionModel.from_pretrained(work / BASE).to(where)
    unet.set_attn_processor(architectures.ExactAttention())
    denoise = sampling.plain(unet)
    bare = sampling.quality(denoise, frozen, seed)
    unet.requires_grad_(False)
    unet.add_adapter(LoraConfig(r=RANK, lora_alpha=RANK, target_modules=_TARGETS), adapter_name=style.name)
    learned = only(unet.parameters())
    course = Course(name=f"lora_{style.name}", work=work, seed=seed, steps=STEPS, rate=_RATE, warm_up=30)
    loop = fit(course, learned, lambda index: v_loss(denoise, batch_of(index, course, frozen, style), index, seed))
    restyled = {}
    for weight in _WEIGHTS:
        unet.set_adapters([style.name], [weight])
        restyled[weight] = sampling.quality(denoise, frozen, seed, style=style).facts
    unet.set_adapters([style.name], [0.0])
    back = sampling.quality(denoise, frozen, seed)
    loop.note(base=BASE, style=style.name, rank=RANK, bare=bare.facts, at_zero=back.facts, restyled=restyled)
    loop.console.print(f"lora {style.name}: restyled {restyled[1.0]:.3f}, poster {bare.facts:.3f}/{back.facts:.3f}")
    unet.set_adapters([style.name], [1.0])
    save(unet, models / "loras" / style.name)


def save(unet: UNet2DConditionModel, folder: Path) -> None:
    """Write the only adapter of `unet`, fp16, as diffusers reads it."""
    layers = {key: value.half() for key, value in get_peft_model_state_dict(unet, adapter_name=_only(unet)).items()}
    StableDiffusionPipeline.save_lora_weights(folder, unet_lora_layers=layers)
    (folder / FILE).chmod(0o644)  # safetensors writes for the owner alone


def _only(unet: UNet2DConditionModel) -> str:
    (name,) = unet.peft_config
    return str(name)
