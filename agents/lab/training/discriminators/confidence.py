"""Turns a discriminator's logits into a confidence, chooses thresholds, and says how good both are, on held-out images.

The images are those of the light variant for captions of the standard stream, in three parts so that none is used
twice: the first fits the confidence, the second sets the thresholds, the third is for the figures.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from agents.lab.evaluation.statistics import calibration
from agents.lab.evaluation.statistics.ranking import auc
from agents.lab.evaluation.statistics.thresholds import Threshold, keep_threshold
from agents.lab.training.discriminators.judged import Judged
from agents.models.discriminator import Discriminator, ImageCheck
from agents.models.saved import save

ESCALATED: Final = 0.5  # share of light images of the standard stream that the recommended threshold sends on
ALPHA: Final = 0.1  # most that may be wrong of the images kept by the threshold with a promise ...
DELTA: Final = 0.05  # ... but for this risk
MIN_SCALE: Final = 0.02  # a higher logit is never a lower confidence, even where the two have nothing to do
_BATCH: Final = 256


class Trained(ImageCheck, Protocol):
    """A discriminator's network that can be saved."""

    def parts(self) -> Mapping[str, nn.Module]: ...
    def config(self) -> dict[str, Any]: ...


def calibrate(logits: torch.Tensor, right: torch.Tensor) -> tuple[float, float]:
    """Scale and shift under which logits [n] are honest probabilities of `right` [n], 0..1 (Platt 1999)."""
    scale, shift = _fit(logits, right)
    if scale >= MIN_SCALE:
        return scale, shift
    return MIN_SCALE, _fit(torch.zeros_like(logits), right, logits * MIN_SCALE)[1]


def _fit(logits: torch.Tensor, right: torch.Tensor, offset: torch.Tensor | float = 0.0) -> tuple[float, float]:
    parameters = torch.tensor([1.0, 0.0], requires_grad=True)
    optimizer = torch.optim.LBFGS([parameters], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(logits * parameters[0] + parameters[1] + offset, right)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    scale, shift = parameters.detach().tolist()
    return scale, shift


def logits_of(examiner: ImageCheck, judged: Judged) -> torch.Tensor:
    """Logits [n] of all judged images."""
    rows = range(0, len(judged.prompts), _BATCH)
    prompts = [str(prompt) for prompt in judged.prompts]
    return torch.cat([examiner.logits(list(judged.images[at : at + _BATCH]), prompts[at : at + _BATCH]) for at in rows])


def finish(folder: Path, name: str, kind: str, examiner: Trained, kept: Judged) -> dict[str, Any]:
    """Calibrate, choose thresholds, measure; write the folder, and return the config written."""
    captioned = kept.captioned()
    logits, right = logits_of(examiner, captioned), captioned.right > 0.5
    fit, choose, test = np.array_split(np.arange(len(right)), 3)
    scale, shift = calibrate(logits[fit], torch.from_numpy(right[fit]).float())
    config: dict[str, Any] = {"name": name, "kind": kind, **examiner.config(), "scale": scale, "shift": shift}
    judge = Discriminator(examiner, config | {"threshold": 0.5})
    confidence = judge.confidence(logits).double().numpy()
    promise: Threshold | None = keep_threshold(confidence[choose], right[choose], alpha=ALPHA, delta=DELTA)
    config |= {
        "threshold": float(np.quantile(confidence[choose], ESCALATED)),
        "threshold_share": ESCALATED,
        "threshold_bound": _bound(promise),
        "held_out": figures(confidence[test], right[test]),
        "deferral": deferral(confidence[choose]),
    }
    free_form = Judged(*(column[kept.objects == 0] for column in kept))
    if len(free_form.prompts):
        config["held_out"]["auc_free_form"] = round(
            auc(logits_of(examiner, free_form).numpy(), free_form.right > 0.5), 4
        )
    save(folder, config, examiner.parts())
    return config


def _bound(promise: Threshold | None) -> dict[str, Any] | None:
    """As config.json has it: None if these images showed no threshold that keeps the promise."""
    if promise is None:
        return None
    fields = asdict(promise)
    return {"threshold": fields.pop("value"), **fields}


def figures(confidence: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Return how well confidences [n] rank and predict which images are right, bool [n]."""
    return {
        "n": len(right),
        "right": round(float(right.mean()), 4),
        "mean_confidence": round(float(confidence.mean()), 4),
        "auc": round(auc(confidence, right), 4),
        "brier": round(calibration.brier(confidence, right), 4),
        "expected_error": round(calibration.expected_error(confidence, right), 4),
    }


def deferral(confidence: np.ndarray, points: int = 21) -> list[dict[str, float]]:
    """f(t), the share of images with a confidence below t, at evenly spread shares; thresholds rise."""
    ordered = np.sort(confidence)
    thresholds = np.unique(np.quantile(confidence, np.linspace(0, 1, points)[1:-1], method="lower"))
    below = np.searchsorted(ordered, thresholds) / len(ordered)
    return [{"threshold": float(t), "deferred": float(f)} for t, f in zip(thresholds, below, strict=True)]
