"""Engine `clip-score`: the cosine of image and prompt by a CLIP of transformers' format.

Source: CLIPScore, Hessel et al. 2021, equation 1, whose w * max(cos, 0) has the same order. PickScore is a CLIP, too,
whose scores are the logits: `scaled`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import AutoModel, AutoProcessor

from agents.judges import JudgeFailed
from agents.judges.pretrained import device_of
from agents.models.pretrained import place_of
from planner.catalog.judges import Judge


class ClipJudge:
    """A CLIP on one device."""

    def __init__(self, judge: Judge, *, scaled: bool = False) -> None:
        """`scaled`: scores are cosines times the temperature that the model has learned, as PickScore's are."""
        place, device = place_of(judge.model), device_of(judge)
        network = AutoModel.from_pretrained(**place.files)
        if not hasattr(network, "logit_scale") or not hasattr(network, "text_projection"):
            raise JudgeFailed(f"judge {judge.name!r}: {judge.model} is a {type(network).__name__}, and no CLIP")
        self._network, self._device = network.eval().to(device), device
        self._processor = AutoProcessor.from_pretrained(**place.words)
        self._factor = float(network.logit_scale.detach().exp()) if scaled else 1.0

    @torch.inference_mode()
    def score(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[float]:
        """Return the cosine of each pair, or the logit. Prompts are cut where the text encoder ends."""
        if not images:
            return []
        asked = self._processor(
            text=list(prompts), images=list(images), return_tensors="pt", padding=True, truncation=True,
            max_length=self._network.config.text_config.max_position_embeddings,
        )  # fmt: skip
        out = self._network(**asked.to(self._device))
        cosines = torch.nn.functional.cosine_similarity(out.image_embeds.float(), out.text_embeds.float())
        return [float(each) for each in self._factor * cosines]


load = ClipJudge
