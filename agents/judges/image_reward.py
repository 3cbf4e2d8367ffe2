"""Kind `imagereward` of engine `reward`: BLIP's towers with a head on the text's first token.

Source: ImageReward, Xu et al. 2023, and the names of its published weights (`blip.*`, `mlp.layers.*`), which are mapped
to those of transformers' BLIP here. Scores are standardized by the published mean and deviation.

A model has `med_config.json` (the text encoder) and `ImageReward.pt`, read as tensors alone, or `model.safetensors`.
Its tokenizer is `options.tokenizer`, a BERT's; without it the model's own folder has one.
"""

import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn
from transformers import AutoTokenizer, BlipTextConfig, BlipVisionConfig
from transformers.models.blip.modeling_blip import BlipVisionModel
from transformers.models.blip.modeling_blip_text import BlipTextModel

from agents.judges import JudgeFailed
from agents.judges.pretrained import device_of
from agents.models.pretrained import Place, place_of
from planner.catalog.judges import Judge

TOKENS: Final = 35  # that are read of a prompt
MEAN, DEVIATION = 0.16717362830052426, 1.0333394966054072  # of scores, as published
RGB_MEAN, RGB_DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
HEAD: Final = (1024, 128, 64, 16, 1)  # widths of the head's layers, with three dropouts between them
FILES: Final = ("model.safetensors", "ImageReward.pt")
TEXT: Final = "blip.text_encoder."
VISION: Final = (  # in their order: name in the published weights -> in transformers
    (r"^blip\.visual_encoder\.", ""),
    (r"^blocks\.", "encoder.layers."),
    (r"^patch_embed\.proj\.", "embeddings.patch_embedding."),
    (r"^cls_token$", "embeddings.class_embedding"),
    (r"^pos_embed$", "embeddings.position_embedding"),
    (r"^norm\.", "post_layernorm."),
    (r"\.attn\.qkv\.", ".self_attn.qkv."),
    (r"\.attn\.proj\.", ".self_attn.projection."),
    (r"\.norm([12])\.", r".layer_norm\1."),
)  # fmt: skip


class ImageReward:
    """An ImageReward on one device."""

    def __init__(self, judge: Judge) -> None:
        """Load it. Raises JudgeFailed for files that are missing, and for weights of another model."""
        place, self._device = place_of(judge.model), device_of(judge)
        weights = _weights(judge, place)
        words = place_of(str(judge.options["tokenizer"])) if judge.options.get("tokenizer") else place
        self._tokenizer = AutoTokenizer.from_pretrained(**words.words)
        self._vision = _vision(weights)
        self._text = _text(weights, json.loads(_file(judge, place, "med_config.json").read_text()))
        self._head = _head(weights)
        for part in (self._vision, self._text, self._head):
            part.eval().to(self._device)
        self._side = self._vision.config.image_size

    @torch.inference_mode()
    def score(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[float]:
        """Return the standardized reward of each pair. Images are cut to their middle square."""
        if not images:
            return []
        pixels = torch.stack([_pixels(each, self._side) for each in images]).to(self._device)
        words = self._tokenizer(
            list(prompts), padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt"
        ).to(self._device)
        seen = self._vision(pixels).last_hidden_state
        read = self._text(
            words.input_ids, attention_mask=words.attention_mask, encoder_hidden_states=seen,
            encoder_attention_mask=torch.ones(seen.shape[:2], device=self._device),
        ).last_hidden_state[:, 0]  # fmt: skip
        rewards = (self._head(read).squeeze(-1) - MEAN) / DEVIATION
        return [float(each) for each in rewards]


def _file(judge: Judge, place: Place, *names: str) -> pathlib.Path:
    """Return the first of these files that the model has. Raises JudgeFailed."""
    folder = pathlib.Path(place.source)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download

        folder = pathlib.Path(snapshot_download(place.source, revision=place.revision, allow_patterns=list(names)))
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise JudgeFailed(f"judge {judge.name!r}: {judge.model} has no {' or '.join(names)}: is it an ImageReward?")
    return found


def _weights(judge: Judge, place: Place) -> dict[str, torch.Tensor]:
    file = _file(judge, place, *FILES)
    weights: dict[str, torch.Tensor]
    if file.suffix == ".safetensors":
        weights = load_file(file)
    else:
        weights = torch.load(file, map_location="cpu", weights_only=True)  # no code of the file runs
    if "mlp.layers.0.weight" not in weights or "blip.visual_encoder.cls_token" not in weights:
        raise JudgeFailed(f"judge {judge.name!r}: {file.name} has no weights of an ImageReward: correct `model`")
    return weights


def _vision(weights: Mapping[str, torch.Tensor]) -> BlipVisionModel:
    """Return the image tower, whose sizes its weights say; heads have 64 channels, as those of all ViTs."""
    named = {}
    for name, value in weights.items():
        if name.startswith("blip.visual_encoder."):
            for published, ours in VISION:
                name = re.sub(published, ours, name)
            named[name] = value.float()
    patches = named["embeddings.patch_embedding.weight"]
    width, patch = patches.shape[0], patches.shape[-1]
    side = round((named["embeddings.position_embedding"].shape[1] - 1) ** 0.5) * patch
    layers = sum(name.endswith("layer_norm1.weight") for name in named)
    config = BlipVisionConfig(
        hidden_size=width, intermediate_size=named["encoder.layers.0.mlp.fc1.weight"].shape[0], image_size=side,
        num_hidden_layers=layers, num_attention_heads=max(1, width // 64), patch_size=patch, layer_norm_eps=1e-6,
    )  # fmt: skip
    tower = BlipVisionModel(config)
    tower.load_state_dict(named)
    return tower


def _text(weights: Mapping[str, torch.Tensor], med: Mapping[str, Any]) -> BlipTextModel:
    named = {name.removeprefix(TEXT): value for name, value in weights.items() if name.startswith(TEXT)}
    named.pop("embeddings.position_ids", None)  # a buffer
    same = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "max_position_embeddings")
    config = BlipTextConfig(
        **{name: med[name] for name in same}, vocab_size=named["embeddings.word_embeddings.weight"].shape[0],
        encoder_hidden_size=med.get("encoder_width", med["hidden_size"]), is_decoder=True,  # it has cross-attention
        hidden_act=med.get("hidden_act", "gelu"), layer_norm_eps=med.get("layer_norm_eps", 1e-12),
    )  # fmt: skip
    encoder = BlipTextModel(config, add_pooling_layer=False)
    encoder.load_state_dict({name: value.float() for name, value in named.items()}, strict=True)
    return encoder


def _head(weights: Mapping[str, torch.Tensor]) -> nn.Sequential:
    width = weights["mlp.layers.0.weight"].shape[1]
    layers: list[nn.Module] = []
    for at, wide in enumerate(HEAD):
        layers += [nn.Linear(width, wide), *([nn.Dropout()] if at < 3 else [])]
        width = wide
    head = nn.Sequential(*layers)
    prefix = "mlp.layers."
    head.load_state_dict({n.removeprefix(prefix): v.float() for n, v in weights.items() if n.startswith(prefix)})
    return head


def _pixels(image: np.ndarray, side: int) -> torch.Tensor:
    """Return an image [3, side, side], standardized: its shorter side is `side`, and its middle is kept."""
    opened = Image.fromarray(image)
    scale = side / min(opened.size)
    wide, high = (max(side, round(each * scale)) for each in opened.size)
    left, top = (wide - side) // 2, (high - side) // 2
    cut = opened.resize((wide, high), Image.Resampling.BICUBIC).crop((left, top, left + side, top + side))
    values = (np.asarray(cut, np.float32) / 255 - RGB_MEAN) / RGB_DEVIATION
    return torch.from_numpy(values.astype(np.float32)).permute(2, 0, 1)
