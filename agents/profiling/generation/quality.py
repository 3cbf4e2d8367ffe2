"""How good an image is: by the facts its prompt states, by a CLIP of the user's, or not judged at all."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from agents.profiling import world
from agents.profiling.world import Marks
from planner.catalog.entries import Variant

FACTS = "facts"
CLIP = "clip:"  # before a folder or hub id of a CLIP in transformers' format
_BATCH = 16


def judge(by: str, variant: Variant, captions: Sequence[str], images: np.ndarray) -> Marks:
    """Return the quality of uint8 images [n, h, w, 3] for prompts that state the captions.

    "facts": as the installed world reads them. "clip:MODEL": CLIPScore. "": nan. Raises PochadeError where facts are to
    be read and no world is installed.
    """
    if by == FACTS:
        return world.needed("judging images by facts needs").marks(variant, captions, images)
    unknown = np.full(len(captions), np.nan)
    quality = _clip_score(by.removeprefix(CLIP), captions, images) if by.startswith(CLIP) else unknown
    return Marks(quality, unknown, np.zeros((len(captions), len(kinds())), bool))


def kinds() -> tuple[str, ...]:
    """Kinds of facts that the installed world reads; none without one."""
    there = world.installed()
    return there.kinds if there else ()


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
