"""Adapters (LoRA) for toys, of random weights, in the formats that are published."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import save_file

RANK = 4

# family -> part -> ends of the names of its layers that an adapter changes
LAYERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "sdxl": {
        "unet": ("attn1.to_q", "ff.net.2"),
        "text_encoder": ("q_proj", "fc1"),
        "text_encoder_2": ("k_proj", "fc2"),
    },
    "sd15": {"unet": ("attn1.to_q", "to_out.0", "conv1"), "text_encoder": ("q_proj", "fc1")},
    "sd3": {"transformer": ("attn.to_q", "ff.net.2"), "text_encoder": ("q_proj",), "text_encoder_2": ("q_proj", "fc1")},
    "flux-dev": {"transformer": ("attn.to_out.0", "ff.net.2", "norm1.linear"), "text_encoder": ("q_proj", "fc1")},
    "qwen-image": {"transformer": ("attn.to_q", "attn.to_out.0")},
    "z-image": {"transformer": ("attention.to_q",)},
    "flux2-klein": {"transformer": ("attn.to_q",)},
    "sana": {"transformer": ("attn1.to_q",)},
    "aura-flow": {"transformer": ("attn.to_q",)},
}
KOHYA = {  # diffusers' names within a FLUX -> those of the model as it was published
    "transformer_blocks.0.attn.to_out.0": "double_blocks_0_img_attn_proj",
    "transformer_blocks.0.ff.net.2": "double_blocks_0_img_mlp_2",
    "transformer_blocks.0.norm1.linear": "double_blocks_0_img_mod_lin",
}


def adapted(pipeline: Any, family: str) -> dict[str, torch.nn.Module]:
    """Return the layers that the family's adapter changes, by part and name."""
    return {
        f"{part}.{name}": module
        for part, ends in LAYERS[family].items()
        for name, module in getattr(pipeline, part).named_modules()
        if name.endswith(ends) and hasattr(module, "weight")
    }


def matrices(pipeline: Any, family: str, seed: int = 1, rank: int = RANK) -> dict[str, torch.Tensor]:
    """Return an adapter by the names of PEFT: "transformer.transformer_blocks.0.attn.to_q.lora_A.weight"."""
    dice, made = torch.Generator().manual_seed(seed), {}
    for name, layer in adapted(pipeline, family).items():
        weight: Any = layer.weight
        kernel = weight.shape[2:]
        made[f"{name}.lora_A.weight"] = torch.randn((rank, *weight.shape[1:]), generator=dice) * 0.3
        made[f"{name}.lora_B.weight"] = torch.randn((len(weight), rank, *(1 for _ in kernel)), generator=dice) * 0.3
    return made


def write_adapter(tensors: Mapping[str, torch.Tensor], path: pathlib.Path, **options: Any) -> str:
    """Write a file as diffusers saves it, and return its path; `options`: what it notes of its making."""
    note = {"lora_adapter_metadata": json.dumps(options)} if options else {}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"format": "pt", **note})
    return str(path)


def prefixed(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return it with CLIP's layers as nearly all files name them: "text_encoder.text_model.encoder..."."""
    encoder = "text_encoder.encoder.", "text_encoder.text_model.encoder."
    return {name.replace(*encoder): tensor for name, tensor in tensors.items()}


def noted(pipeline: Any, family: str, alpha: float) -> dict[str, Any]:
    """Return what diffusers notes of an adapter with one alpha for all layers."""
    made: dict[str, Any] = {}
    for part in LAYERS[family]:
        names = [name.partition(".")[2] for name in adapted(pipeline, family) if name.startswith(f"{part}.")]
        config = {"r": RANK, "lora_alpha": alpha, "target_modules": names, "rank_pattern": {}, "alpha_pattern": {}}
        made |= {f"{part}.{key}": value for key, value in config.items()}
    return made


def in_kohya_format(tensors: Mapping[str, torch.Tensor], alpha: float, family: str) -> dict[str, torch.Tensor]:
    """Return it as kohya's scripts save it: "lora_unet_...", "lora_te1_..."."""
    made = {}
    for name, tensor in prefixed(tensors).items():
        part, _, layer = name.partition(".")
        layer, _, matrix = layer.rpartition(".lora_")
        prefix = {"text_encoder": "lora_te1_", "text_encoder_2": "lora_te2_"}.get(part, "lora_unet_")
        own = KOHYA[layer] if family == "flux-dev" and prefix == "lora_unet_" else layer.replace(".", "_")
        made[f"{prefix}{own}.lora_{'down' if matrix[0] == 'A' else 'up'}.weight"] = tensor
        made[f"{prefix}{own}.alpha"] = torch.tensor(alpha)
    return made
