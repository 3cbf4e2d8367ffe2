"""How good an image is: by the facts its prompt states, by a CLIP of the user's, or not judged at all."""

from collections.abc import Sequence
from functools import cache
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from agents.lab.world import facts
from agents.lab.world.styles import POSTER, STYLES, Style
from agents.world.layout import SIZE
from planner.catalog.entries import Variant

CLIP = "clip:"  # before a folder or hub id of a CLIP in transformers' format
_BATCH = 16


class Marks(NamedTuple):
    """What n images are worth."""

    quality: np.ndarray  # [n] in 0..1, or nan
    facts: np.ndarray  # [n] share of the stated facts that hold; nan where facts are not looked at
    missed: np.ndarray  # bool [n, kinds of facts.KINDS]; False where facts are not looked at


def judge(by: str, variant: Variant, captions: Sequence[str], images: np.ndarray) -> Marks:
    """What uint8 images [n, h, w, 3] are worth to who asked for what the captions state.

    "facts": quality is 1 if all stated facts hold, read in the style of the model, and 0 else. nan for a caption
    outside the grammar, and for images of another size than the world's. "clip:MODEL": CLIPScore. "": nan.
    """
    unknown = np.full(len(captions), np.nan)
    unseen = unknown, np.zeros((len(captions), len(facts.KINDS)), bool)
    if by.startswith(CLIP):
        return Marks(_clip_score(by.removeprefix(CLIP), captions, images), *unseen)
    if by != "facts" or images.shape[1:] != (SIZE, SIZE, 3):
        return Marks(unknown, *unseen)
    style = style_of(variant)
    reports = [facts.check(caption, image, style) for caption, image in zip(captions, images, strict=True)]
    return Marks(
        np.array([float(report.all_hold) if report.facts else np.nan for report in reports]),
        np.array([report.share for report in reports]),
        np.array([[kind in report.misses for kind in facts.KINDS] for report in reports]),
    )


def style_of(variant: Variant) -> Style:
    """The style whose name the model's folder or the variant has, as in models/chalk; else the poster's."""
    names = (PurePath(variant.model).name, variant.name)
    return next((STYLES[name] for name in names if name in STYLES), POSTER)


def _clip_score(model: str, prompts: Sequence[str], images: np.ndarray) -> np.ndarray:
    """2.5 max(cos, 0), cut at 1. Source: CLIPScore, Hessel et al. 2021, equation 1."""
    import torch

    network, processor = _clip(model)
    scores = []
    for at in range(0, len(prompts), _BATCH):
        inputs = processor(
            text=list(prompts[at : at + _BATCH]), images=list(images[at : at + _BATCH]), return_tensors="pt",
            padding=True, truncation=True,
        )  # fmt: skip
        with torch.inference_mode():
            out = network(**inputs.to(network.device))
        scores.append(torch.nn.functional.cosine_similarity(out.image_embeds, out.text_embeds).float().cpu().numpy())
    return np.clip(2.5 * np.concatenate(scores), 0, 1)


@cache
def _clip(model: str) -> tuple[Any, Any]:
    import torch
    from transformers import CLIPModel, CLIPProcessor

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return CLIPModel.from_pretrained(model).eval().to(device), CLIPProcessor.from_pretrained(model)
