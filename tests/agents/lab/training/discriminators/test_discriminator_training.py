"""From images of the family to calibrated discriminators, by what `pochade learn` fits and calibrates with."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from agents.lab.training.discriminators import discriminator
from agents.lab.training.discriminators.discriminator import finish
from agents.lab.training.discriminators.judged import Judged
from agents.learning.discriminators.fitting import Fitted, Schedule
from agents.models.discriminator import Discriminator
from agents.models.saved import save
from tests.agents.lab.training.judging import a_scorer, judged_by, keep_tokenizer

pytestmark = pytest.mark.torch


class Examiner:
    """Says what it was told to, in the order of the prompts."""

    kind = "network"

    def __init__(self, prompts: Sequence[str], logits: np.ndarray) -> None:
        self._logits = dict(zip(prompts, logits, strict=True))

    def parts(self) -> Mapping[str, nn.Module]:
        return {"network": nn.Linear(1, 1)}

    def config(self) -> dict[str, Any]:
        return {}

    def logits(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor:  # noqa: ARG002
        return torch.tensor([self._logits[prompt] for prompt in prompts]).float()


def told(count: int, sharpness: float, seed: int = 0) -> tuple[Judged, Fitted]:
    """Images, and an examiner whose true confidence is sigmoid(sharpness x its logit)."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1, count)
    right = rng.random(count) < 1 / (1 + np.exp(-sharpness * logits))
    some = judged_by(right[:30])
    rows = np.arange(count) % 30
    kept = some.at(rows)._replace(prompts=np.array([str(row) for row in range(count)]), right=right.astype(float))
    return kept, Fitted(Examiner([str(p) for p in kept.prompts], logits))


def figures_of(folder: Path, count: int, sharpness: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """The note and the configuration that are written of such an examiner."""
    kept, judge = told(count, sharpness)
    finish(folder, folder, "it", judge, kept)
    written = folder / "discriminator_it_held_out.json", folder / "discriminators" / "it" / "config.json"
    note, config = (json.loads(file.read_text()) for file in written)
    return note, config


def test_a_good_examiner_is_written_with_its_figures(tmp_path: Path) -> None:
    note, config = figures_of(tmp_path, 1500, 6)
    assert (note["n"], config["calibrated_on"]["n"]) == (500, 1000)
    assert note["auc"] > 0.9
    assert note["expected_error"] < 0.1


def test_an_examiner_that_knows_nothing_is_as_confident_as_images_are_right(tmp_path: Path) -> None:
    note, _config = figures_of(tmp_path, 600, 0)
    assert note["auc"] == pytest.approx(0.5, abs=0.1)
    assert note["mean_confidence"] == pytest.approx(note["right"], abs=0.12)


def test_the_recommended_threshold_sends_on_half(tmp_path: Path) -> None:
    _note, config = figures_of(tmp_path, 900, 3)
    curve = [(point["threshold"], point["deferred"]) for point in config["deferral"]]
    assert np.interp(config["threshold"], *zip(*curve, strict=True)) == pytest.approx(0.5, abs=0.02)


def test_the_papers_discriminators_are_fitted_calibrated_and_saved_as_learn_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discriminator, "RENDERINGS", 64)
    monkeypatch.setattr(discriminator, "NETWORK", Schedule(epochs=1, batch=80))
    shown: dict[str, list[tuple[list[np.ndarray], np.ndarray]]] = {"network": [], "embedding": []}

    def seeing(kind: str, fit: Callable[..., Fitted]) -> Callable[..., Fitted]:
        def fit_and_keep(images: list[np.ndarray], prompts: list[str], real: np.ndarray, **how: Any) -> Fitted:
            shown[kind].append((images, real))
            return fit(images, prompts, real, **how)

        return fit_and_keep

    monkeypatch.setattr(discriminator, "fit_network", seeing("network", discriminator.fit_network))
    monkeypatch.setattr(discriminator, "fit_embedding", seeing("embedding", discriminator.fit_embedding))
    whole = a_scorer()
    save(tmp_path / "scorer", {"width": 64, **whole.encoder.config}, whole.parts())
    keep_tokenizer(tmp_path / "scorer")
    light, heavy = judged_by(np.arange(64) % 2), judged_by(np.arange(32) % 2, 3)
    discriminator.papers(tmp_path, tmp_path, light, heavy, judged_by(np.arange(60) % 2, 4), seed=1)
    judges = {name: Discriminator.load(tmp_path / "discriminators" / name) for name in ("real", "real-heavy")}
    assert {judge.kind for judge in judges.values()} == {"network"}
    assert Discriminator.load(tmp_path / "discriminators" / "embedding").kind == "embedding"
    notes = [json.loads((tmp_path / f"discriminator_{name}.json").read_text()) for name in ("real-heavy", "embedding")]
    assert [note["samples"] for note in notes] == [64 + 32, 64 + 64 + 32]
    assert notes[1]["parameters"] < notes[0]["parameters"]  # of the head alone
    generated = [*light.images, *heavy.images]
    true = discriminator.renderings(np.random.default_rng([1, 1 << 20]), 64)
    for (images, is_real), real, fake in (
        (shown["network"][0], true, generated),
        (shown["network"][1], heavy.images, light.images),
        (shown["embedding"][0], true, generated),
    ):
        assert np.array_equal([image for image, label in zip(images, is_real, strict=True) if label == 1], real)
        assert np.array_equal([image for image, label in zip(images, is_real, strict=True) if label == 0], fake)
