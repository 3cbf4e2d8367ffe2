"""Toys of judges of images: folders of their true classes with random weights, as the hub has them."""

import json
import pathlib
import re

import torch
from safetensors.torch import save_file

from tests.toys.tokenizers import CLIP_TOKENS, clip_tokenizer

SIDE = 32


def write_clip(folder: pathlib.Path) -> pathlib.Path:
    """Write a CLIP with its processor."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor

    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = CLIPConfig(
        text_config={**sizes, "vocab_size": CLIP_TOKENS, "bos_token_id": 512, "eos_token_id": 513},
        vision_config={**sizes, "image_size": SIDE, "patch_size": 16}, projection_dim=16,
    )  # fmt: skip
    torch.manual_seed(0)
    CLIPModel(config).save_pretrained(folder)
    images = CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    CLIPProcessor(image_processor=images, tokenizer=clip_tokenizer()).save_pretrained(folder)
    return folder


def write_vit(folder: pathlib.Path, labels: tuple[str, ...] = ("plain", "nsfw"), **sizes: int) -> pathlib.Path:
    """Write a ViT that classifies images."""
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    known: dict[str, int] = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
        "image_size": SIDE, "patch_size": 8,
    }  # fmt: skip
    config = ViTConfig(
        **(known | sizes), id2label=dict(enumerate(labels)), label2id={n: i for i, n in enumerate(labels)}
    )
    torch.manual_seed(0)
    ViTForImageClassification(config).save_pretrained(folder)
    side = (known | sizes)["image_size"]
    ViTImageProcessor(size={"height": side, "width": side}).save_pretrained(folder)
    return folder


def write_efficientnet(folder: pathlib.Path) -> pathlib.Path:
    """Write timm's smallest EfficientNet as timm writes for the hub, with two classes."""
    import timm
    from timm.models import save_for_hf

    torch.manual_seed(0)
    model = timm.create_model("test_efficientnet", num_classes=2)
    save_for_hf(model, str(folder), model_config={"label_names": ["generated", "real"]}, safe_serialization=True)
    return folder


def write_image_reward(folder: pathlib.Path) -> pathlib.Path:
    """Write an ImageReward under the names of the published weights, and BERT's tokenizer."""
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    text, vision, patches = 32, 64, (SIDE // 16) ** 2
    shapes: dict[str, tuple[int, ...]] = {
        "visual_encoder.cls_token": (1, 1, vision), "visual_encoder.pos_embed": (1, patches + 1, vision),
        "visual_encoder.patch_embed.proj.weight": (vision, 3, 16, 16),
        "visual_encoder.patch_embed.proj.bias": (vision,),
        "text_encoder.embeddings.word_embeddings.weight": (40, text),
        "text_encoder.embeddings.position_embeddings.weight": (64, text),
        **_layer("visual_encoder.norm", vision), **_layer("text_encoder.embeddings.LayerNorm", text),
    }  # fmt: skip
    for at in range(2):
        block, layer = f"visual_encoder.blocks.{at}.", f"text_encoder.encoder.layer.{at}."
        shapes |= _layer(block + "norm1", vision) | _layer(block + "norm2", vision)
        shapes |= _layer(block + "attn.qkv", 3 * vision, vision) | _layer(block + "attn.proj", vision, vision)
        shapes |= _layer(block + "mlp.fc1", 4 * vision, vision) | _layer(block + "mlp.fc2", vision, 4 * vision)
        for attention, width in (("attention.", text), ("crossattention.", vision)):
            shapes |= _layer(layer + attention + "self.query", text, text)
            shapes |= _layer(layer + attention + "self.key", text, width)
            shapes |= _layer(layer + attention + "self.value", text, width)
            shapes |= _layer(layer + attention + "output.dense", text, text)
            shapes |= _layer(layer + attention + "output.LayerNorm", text)
        shapes |= _layer(layer + "intermediate.dense", 64, text) | _layer(layer + "output.dense", text, 64)
        shapes |= _layer(layer + "output.LayerNorm", text)
    weights = {f"blip.{name}": _drawn(name, shape) for name, shape in shapes.items()}
    wide = text
    for at, out in zip((0, 2, 4, 6, 7), (1024, 128, 64, 16, 1), strict=True):
        weights |= {f"mlp.layers.{at}.weight": _drawn("", (out, wide)), f"mlp.layers.{at}.bias": torch.zeros(out)}
        wide = out
    weights["blip.text_encoder.embeddings.position_ids"] = torch.arange(64)[None]
    save_file(weights, folder / "model.safetensors")
    (folder / "med_config.json").write_text(json.dumps({
        "hidden_size": text, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
        "max_position_embeddings": 64, "encoder_width": vision, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
    }))  # fmt: skip
    return bert_tokenizer(folder)


def bert_tokenizer(folder: pathlib.Path) -> pathlib.Path:
    """Write a BERT's tokenizer of letters into a folder."""
    from transformers import BertTokenizer

    letters = [*"abcdefghijklmnopqrstuvwxyz", *(f"##{each}" for each in "aeiou")]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    BertTokenizer(vocab={word: at for at, word in enumerate(words)}).save_pretrained(folder)
    return folder


def _layer(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _drawn(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    is_norm = re.search(r"norm\d?\.weight$", name, re.I) is not None
    if is_norm:
        return torch.ones(shape)
    return torch.randn(shape) * (0.1 if len(shape) < 2 else shape[-1] ** -0.5)
