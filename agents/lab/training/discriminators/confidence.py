"""Calibrates a discriminator, chooses its threshold, and says how good both are, on held-out images.

The images are those of the light variant for captions of the standard stream, in three parts so that none is used
twice: the first fits the confidence, the second sets the threshold, the third is for the figures.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import nn

from agents.lab.training.discriminators.judged import Judged
from agents.learning.calibration import auc, calibrate, deferral, figures
from agents.models.discriminator import Discriminator, ImageCheck
from agents.models.saved import save

ESCALATED: Final = 0.5  # share of light images of the standard stream that the recommended threshold sends on
_BATCH: Final = 256


class Trained(ImageCheck, Protocol):
    """A discriminator's network that can be saved."""

    def parts(self) -> Mapping[str, nn.Module]: ...
    def config(self) -> dict[str, Any]: ...


def logits_of(examiner: ImageCheck, judged: Judged) -> torch.Tensor:
    """Logits [n] of all judged images."""
    rows = range(0, len(judged.prompts), _BATCH)
    prompts = [str(prompt) for prompt in judged.prompts]
    return torch.cat([examiner.logits(list(judged.images[at : at + _BATCH]), prompts[at : at + _BATCH]) for at in rows])


def finish(folder: Path, name: str, kind: str, examiner: Trained, kept: Judged) -> dict[str, Any]:
    """Calibrate, choose the threshold, measure; write the folder, and return the config written."""
    captioned = kept.captioned()
    logits, right = logits_of(examiner, captioned), captioned.right > 0.5
    fit, choose, test = np.array_split(np.arange(len(right)), 3)
    scale, shift = calibrate(logits[fit].numpy(), right[fit])
    config: dict[str, Any] = {"name": name, "kind": kind, **examiner.config(), "scale": scale, "shift": shift}
    judge = Discriminator(examiner, config | {"threshold": 0.5})
    confidence = judge.confidence(logits).double().numpy()
    config |= {
        "threshold": float(np.quantile(confidence[choose], ESCALATED)),
        "threshold_share": ESCALATED,
        "held_out": figures(confidence[test], right[test]),
        "deferral": deferral(confidence[choose]),
    }
    free_form = kept.at(kept.objects == 0)
    if len(free_form.prompts):
        config["held_out"]["auc_free_form"] = round(
            auc(logits_of(examiner, free_form).numpy(), free_form.right > 0.5), 4
        )
    save(folder, config, examiner.parts())
    return config
