"""Fits the kind `embedding`: a head on features of a frozen encoder, which are computed once. Source: HADIS 3.3."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import nn

from agents.learning.discriminators.fitting import Fitted, Schedule, chunks, descend, error_of, loss_of, split
from agents.learning.progress import Progress, nothing
from agents.models.judges.embedding import Embedding, Head, Pretrained
from agents.models.pretrained import device_named
from agents.models.scorer import ImageTower

SCHEDULE: Final = Schedule(epochs=30, batch=128, decay=0.3)
_DROPOUT: Final = 0.5


def fit_embedding(
    images: Sequence[np.ndarray],
    prompts: Sequence[str],
    right: np.ndarray,
    encoder: str | ImageTower,
    *,
    with_prompt: bool = False,
    seed: int = 0,
    device: str = "",
    progress: Progress = nothing,
    schedule: Schedule = SCHEDULE,
) -> Fitted:
    """Fit on images uint8 [n][h, w, 3] of prompts [n], of which `right` [n] are good: 0..1, nan where it is unknown.

    `encoder`: a folder or hub id of a CLIP or a vision backbone, to which the discriminator's folder will refer, or the
    shipped scorer's image tower. Raises PochadeError: too few labels, or `with_prompt` for an encoder of images alone.
    """
    torch.manual_seed(seed)
    fitted, held = split(right, prompts, seed)
    fitted = fitted[~np.isnan(right[fitted])]
    if isinstance(encoder, str):
        used: ImageTower | Pretrained = Pretrained(encoder, with_prompt=with_prompt, device=device_named(device))
    else:
        used = encoder
    model = Embedding(used, Head())
    parts = list[torch.Tensor]()
    for part in chunks(np.arange(len(images))):
        parts.append(model.features([images[row] for row in part], [prompts[row] for row in part]))
        progress((part[-1] + 1) / len(images))  # of it all, but for the seconds of the head
    features, labels = torch.cat(parts), torch.from_numpy(np.nan_to_num(right)).float()
    is_normed = isinstance(used, ImageTower)
    head = Head(features.shape[1], normed=is_normed, dropout=_DROPOUT)
    mean, spread = features[fitted].mean(0), features[fitted].std(0) + 1e-6
    known = features if is_normed else (features - mean) / spread

    def held_error() -> float:
        with torch.no_grad():
            return error_of(head(known[held]).numpy(), right[held])

    def loss(batch: np.ndarray, _: np.random.Generator) -> torch.Tensor:
        return loss_of(head(known[batch]), labels[batch])

    descend(head, loss, held_error, fitted, schedule, seed)
    first = head.layers[0]
    if isinstance(first, nn.Linear):  # what was standardized is so by its weights from now on
        with torch.no_grad():
            first.weight.div_(spread)
            first.bias.sub_(first.weight @ mean)
    return Fitted(Embedding(used, head))
