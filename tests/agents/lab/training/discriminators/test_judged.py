"""Painted pictures with their labels, kept in chunks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agents.lab.training.discriminators import judged
from agents.lab.training.discriminators.judged import CHUNK, cached
from agents.lab.world import facts
from tests.agents.lab.training.judging import FakeGenerator


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged, "CHUNK", 40)


class Stops(FakeGenerator):
    """Is broken off in its fourth call."""

    def generate(self, prompts: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
        if self.calls == 3:
            raise KeyboardInterrupt
        return super().generate(prompts, seeds)


def test_labels_are_what_the_fact_checker_says_and_graded_outside_the_grammar(tmp_path: Path) -> None:
    found = cached(tmp_path, FakeGenerator(), 7, 80)
    assert len(found.prompts) == len(found.images) == 80
    captioned = found.captioned()
    assert 0.7 * 80 < len(captioned.prompts) < 80
    assert set(captioned.right) == {0.0, 1.0}
    for prompt, picture, right in zip(*captioned[:3], strict=True):
        report = facts.check(str(prompt), picture)
        assert not report.facts or report.all_hold == right  # a caption amid junk has no facts of its own
    assert (found.right >= 0).all()
    assert (found.right <= 1).all()


def test_a_run_that_was_broken_off_paints_only_what_is_missing(tmp_path: Path) -> None:
    whole = cached(tmp_path / "whole", FakeGenerator(), 7, 120)
    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path / "parts", Stops(), 7, 120)
    generator = FakeGenerator()
    again = cached(tmp_path / "parts", generator, 7, 120)
    assert generator.calls == 4  # the first of three chunks was there, of two calls each
    for mine, theirs in zip(again, whole, strict=True):
        assert (mine == theirs).all()


def test_more_pictures_of_the_same_seed_begin_with_the_same(tmp_path: Path) -> None:
    few, many = cached(tmp_path, FakeGenerator(), 7, 40), cached(tmp_path, FakeGenerator(), 7, 80)
    assert (many.prompts[:40] == few.prompts).all()
    assert (many.prompts[40:] != few.prompts).any()


@pytest.mark.parametrize("part", ["unet", "vae"])
def test_other_weights_are_painted_anew(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator, models = FakeGenerator(), tmp_path / "models"
    monkeypatch.setattr("agents.lab.training.discriminators.judged.ImageGenerator.of", lambda *_: generator)
    for name in ("unet", "vae"):
        (models / "light" / name).mkdir(parents=True)
        (models / "light" / name / "diffusion_pytorch_model.safetensors").write_text(name)
    painted = []
    for weights in (part, part, "others"):
        (models / "light" / part / "diffusion_pytorch_model.safetensors").write_text(weights)
        judged.by_variant(tmp_path, models, "light", 7, 40)
        painted.append(generator.calls)
    assert painted[0] == painted[1] < painted[2]


def test_chunks_are_worth_a_file() -> None:
    assert CHUNK >= 100
