"""Fits the kind `network`: a backbone as a whole, by the image alone. Source: DiffServe 3.2, 4.4 and figure 7."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from agents.learning.discriminators.fitting import Fitted, Schedule, chunks, descend, error_of, loss_of, split
from agents.learning.progress import Progress, nothing
from agents.models.judges.network import OURS, Whole, untrained
from agents.models.judges.pixels import SIDE, scaled
from agents.models.pretrained import device_named
from agents.world.layout import SIZE
from schemas.errors import PochadeError

SCHEDULE: Final = Schedule(epochs=12)
_SHIFT: Final = 2  # px


def fit_network(
    images: Sequence[np.ndarray],
    prompts: Sequence[str],
    right: np.ndarray,
    architecture: str = OURS,
    *,
    side: int = 0,
    seed: int = 0,
    device: str = "",
    progress: Progress = nothing,
    schedule: Schedule = SCHEDULE,
) -> Fitted:
    """Fit on images uint8 [n][h, w, 3], of which `right` [n] are good: 0..1, nan where it is unknown.

    `architecture`: OURS; a name of timm's, such as tf_efficientnetv2_b0 or resnet34, with random weights; or an image
    classifier of transformers' format by folder or hub id, whose weights are the first ones, or random if the folder
    has none. `side`: px to which images are scaled; 0: as the architecture has it. Raises PochadeError: too few labels,
    or no such architecture.
    """
    torch.manual_seed(seed)
    where = device_named(device)
    fitted, held = split(right, prompts, seed)
    fitted = fitted[~np.isnan(right[fitted])]
    network, config, own_side = _opened(architecture)
    whole = Whole(network.to(where), config, side or own_side)
    pixels = torch.from_numpy(scaled(images, side or own_side)).to(where)
    labels = torch.from_numpy(np.nan_to_num(right)).float().to(where)

    def held_error() -> float:
        with torch.no_grad():
            return error_of(torch.cat([whole(pixels[part]).cpu() for part in chunks(held)]).numpy(), right[held])

    def loss(batch: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
        moved = torch.roll(pixels[batch], tuple(rng.integers(-_SHIFT, _SHIFT + 1, 2).tolist()), (1, 2))
        mirrored = torch.flip(moved, (2,)) if rng.random() < 0.5 else moved
        return loss_of(whole(mirrored), labels[batch])

    descend(network, loss, held_error, fitted, schedule, seed, progress)
    network.cpu()
    return Fitted(whole)


def _opened(architecture: str) -> tuple[nn.Module, str | Mapping[str, Any], int]:
    """Return the network, what its folder says of it, and the side of its images in px."""
    if architecture == OURS:
        return untrained(OURS), OURS, SIZE
    import timm
    from transformers import AutoConfig, AutoModelForImageClassification, TimmWrapperConfig

    if timm.is_model(architecture):
        config = TimmWrapperConfig(architecture=architecture, num_labels=1).to_dict()
        return untrained(config), config, SIDE
    if not (is_folder := Path(architecture).is_dir()) and "/" not in architecture:
        raise PochadeError(
            f"architecture {architecture!r} is neither {OURS!r} nor one of timm's, nor a folder or OWNER/NAME@REVISION"
        )
    from agents.engines import revised

    source, revision = revised(architecture)
    found = AutoConfig.from_pretrained(source, revision=revision, num_labels=1)
    config, side = found.to_dict(), int(getattr(found, "image_size", SIDE) or SIDE)
    if is_folder and not list(Path(source).glob("*.safetensors")):
        return untrained(config), config, side
    how = {"num_labels": 1, "ignore_mismatched_sizes": True, "use_safetensors": True}
    return AutoModelForImageClassification.from_pretrained(source, revision=revision, **how), config, side
