"""The UNets of the family, the noise schedule they share, and the frozen parts they stand on."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from diffusers.models.attention_processor import Attention
from diffusers.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from transformers import CLIPTextModel, CLIPTokenizer

from agents.lab.training.generators.text_encoder import tokens

LATENT: Final = (8, 12, 12)  # channels, height, width

_CROSS, _PLAIN = ("CrossAttnDownBlock2D", "CrossAttnUpBlock2D"), ("DownBlock2D", "UpBlock2D")
_BLOCKS: Final = (_PLAIN, _CROSS)  # attention at 6 x 6 and in the middle: at 12 x 12 it took half of each step
_SIZES: Final = {"XS": ((32, 64), 1), "L": ((64, 128), 1), "XL": ((64, 128), 3)}  # widths, layers per block


def build_unet(size: str) -> UNet2DConditionModel:
    """A fresh UNet: XS has 1.0 M parameters, L 4.0 M, XL 7.6 M."""
    if size not in _SIZES:
        raise ValueError(f"unknown size {size!r}: known are {', '.join(_SIZES)}")
    widths, layers = _SIZES[size]
    return UNet2DConditionModel(
        sample_size=LATENT[1],
        in_channels=LATENT[0],
        out_channels=LATENT[0],
        block_out_channels=widths,
        down_block_types=tuple(down for down, _ in _BLOCKS),
        up_block_types=tuple(up for _, up in reversed(_BLOCKS)),
        layers_per_block=layers,
        cross_attention_dim=128,
        attention_head_dim=4,  # in this class that is the number of heads
        norm_num_groups=16,
    )


def build_scheduler() -> DDIMScheduler:
    """v-prediction, zero terminal SNR, trailing: one step starts from pure noise and is well defined."""
    return DDIMScheduler(
        num_train_timesteps=1000,
        beta_schedule="squaredcos_cap_v2",
        prediction_type="v_prediction",
        rescale_betas_zero_snr=True,
        timestep_spacing="trailing",
        clip_sample=False,
        set_alpha_to_one=True,
        steps_offset=0,
    )


def autoencoder_of(work: Path) -> Path:
    """Return the folder of the best autoencoder: the one encoder, with the longer trained decoder if it is there."""
    sharp = work / "vae_sharp"
    return sharp if sharp.is_dir() else work / "vae"


class Frozen(NamedTuple):
    """The frozen parts that every UNet of the family is trained with."""

    vae: AutoencoderTiny
    text_encoder: CLIPTextModel
    words: CLIPTokenizer


def load_frozen(work: Path, where: torch.device) -> Frozen:
    """Autoencoder, text encoder and tokenizer from the work folder, in fp32, without gradients."""
    vae = AutoencoderTiny.from_pretrained(autoencoder_of(work)).to(where).eval().requires_grad_(False)
    text = CLIPTextModel.from_pretrained(work / "text_encoder", dtype=torch.float32).to(where).eval()
    return Frozen(vae, text.requires_grad_(False), CLIPTokenizer.from_pretrained(work / "tokenizer"))


@torch.no_grad()
def embed(frozen: Frozen, prompts: list[str], where: torch.device) -> torch.Tensor:
    """Token states [n, 48, 128] of the prompts."""
    states: torch.Tensor = frozen.text_encoder(tokens(frozen.words, prompts).to(where)).last_hidden_state
    return states


class ExactAttention:
    """Attention in fp32 inside bf16 autocast: on CPUs the backward pass of bf16 attention took half of each step."""

    def __call__(
        self,
        attn: Attention,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        **_: Any,
    ) -> torch.Tensor:
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        heads = attn.heads

        def split(x: torch.Tensor) -> torch.Tensor:
            return x.view(*x.shape[:2], heads, -1).transpose(1, 2).float()

        query, key, value = split(attn.to_q(hidden_states)), split(attn.to_k(source)), split(attn.to_v(source))
        with torch.autocast(query.device.type, enabled=False):
            scores = (query @ key.transpose(-1, -2)) * query.shape[-1] ** -0.5
            mixed = scores.softmax(-1) @ value
        mixed = mixed.transpose(1, 2).flatten(2).to(hidden_states.dtype)
        out: torch.Tensor = attn.to_out[0](mixed)
        return out
