"""From logits to confidences and thresholds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from agents.lab.training.discriminators.confidence import finish
from agents.lab.training.discriminators.judged import Judged
from tests.agents.lab.training.judging import judged_by


class Examiner:
    """Says what it was told to, in the order of the prompts."""

    def __init__(self, prompts: Sequence[str], logits: np.ndarray) -> None:
        self._logits = dict(zip(prompts, logits, strict=True))

    def parts(self) -> Mapping[str, nn.Module]:
        return {"network": nn.Linear(1, 1)}

    def config(self) -> dict[str, Any]:
        return {}

    def logits(self, pictures: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor:  # noqa: ARG002
        return torch.tensor([self._logits[prompt] for prompt in prompts]).float()


def told(count: int, sharpness: float, seed: int = 0) -> tuple[Judged, Examiner]:
    """Pictures and an examiner whose true confidence is sigmoid(sharpness x its logit)."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1, count)
    kept = judged_by(rng.random(count) < 1 / (1 + np.exp(-sharpness * logits)))
    kept = kept._replace(prompts=np.array([f"{i}: {prompt}" for i, prompt in enumerate(kept.prompts)]))
    return kept, Examiner([str(p) for p in kept.prompts], logits)


def test_a_good_examiner_is_written_with_its_figures(tmp_path: Path) -> None:
    config = finish(tmp_path, "it", "network", told(1500, 6)[1], told(1500, 6)[0])
    assert json.loads((tmp_path / "config.json").read_text()) == config
    assert config["held_out"]["auc"] > 0.9
    assert config["held_out"]["expected_error"] < 0.1


def test_an_examiner_that_knows_nothing_is_as_confident_as_images_are_right(tmp_path: Path) -> None:
    kept, examiner = told(600, 0)
    config = finish(tmp_path, "it", "network", examiner, kept)
    assert config["held_out"]["auc"] == pytest.approx(0.5, abs=0.1)
    assert config["held_out"]["mean_confidence"] == pytest.approx(config["held_out"]["right"], abs=0.12)


def test_the_recommended_threshold_sends_on_the_share_it_says(tmp_path: Path) -> None:
    kept, examiner = told(900, 3)
    config = finish(tmp_path, "it", "network", examiner, kept)
    sent_on = np.interp(
        config["threshold"], *zip(*[(p["threshold"], p["deferred"]) for p in config["deferral"]], strict=True)
    )
    assert sent_on == pytest.approx(config["threshold_share"], abs=0.02)
