"""The trained text side of the work folder, as the parts that judge and score use it."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import CLIPTextModel

from agents.models.caption_reader import CaptionReader
from agents.models.prompt_encoder import PromptEncoder
from agents.models.text_tower import TextTower
from agents.models.tokens import TOKENIZER

_NAMES = {
    "layer_norm1": "norm1",
    "layer_norm2": "norm2",
    "self_attn.q_proj": "q",
    "self_attn.k_proj": "k",
    "self_attn.v_proj": "v",
    "self_attn.out_proj": "out",
    "mlp.fc1": "up",
    "mlp.fc2": "down",
    "embeddings.token_embedding": "token",
    "embeddings.position_embedding": "place",
    "encoder.layers": "layers",
    "final_layer_norm": "norm",
}


def from_clip(weights: Mapping[str, torch.Tensor]) -> TextTower:
    """The tower with the weights of a CLIPTextModel's state dict."""
    renamed = {}
    for name, value in weights.items():
        short = name.removeprefix("text_model.")
        if short.endswith("position_ids"):
            continue
        for theirs, ours in _NAMES.items():
            short = short.replace(theirs, ours)
        renamed[short] = value.float()
    tower = TextTower(*(renamed[f"{table}.weight"].shape[0] for table in ("token", "place")))
    tower.load_state_dict(renamed)
    return tower


def tokenizer_file(work: Path) -> Path:
    return work / "tokenizer" / TOKENIZER


def copy_tokenizer(tokenizer: Path, folder: Path) -> None:
    """Put a tokenizer.json beside the weights in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(tokenizer, folder / TOKENIZER)


def prompt_encoder(work: Path) -> PromptEncoder:
    """The text encoder, frozen."""
    states = CLIPTextModel.from_pretrained(work / "text_encoder").state_dict()
    encoder = PromptEncoder(from_clip(states), Tokenizer.from_file(str(tokenizer_file(work))))
    return encoder.eval().requires_grad_(False)


def caption_reader(work: Path) -> CaptionReader:
    """The reader of its states, frozen."""
    reader = CaptionReader()
    reader.load_state_dict({name: v.float() for name, v in load_file(work / "caption_reader.safetensors").items()})
    return reader.eval().requires_grad_(False)
