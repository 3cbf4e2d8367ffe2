"""Scores of generated images: kept beside them, and made anew where the scorer has changed."""

import contextlib
import pathlib

import numpy as np
import pytest

from agents.profiling.generation import quality
from agents.profiling.generation.pool import GenerationPool
from agents.profiling.generation.scoring import Scoring
from agents.profiling.generation.sweeps import order
from agents.profiling.seeded_prompts import SeededPrompts
from tests.builders import a_variant

VARIANT = a_variant(width=16, height=16, latency_ms={1: 0.1}, load_ms=0)
ORDERS = {"light": order(VARIANT, SeededPrompts(prompts=("a cat", "a boat"), seeds=(1, 2)), judged_by="")}


def scored(folder: pathlib.Path) -> list[float]:
    found = Scoring("labels:labels.csv", 0.5).generate(GenerationPool(folder / "cache"), ORDERS)
    return found["light"].quality.tolist()


def test_labels_that_were_changed_count_at_once_and_no_image_is_generated_again(tmp_path: pathlib.Path) -> None:
    with contextlib.chdir(tmp_path):
        labels = pathlib.Path("labels.csv")
        labels.write_text("prompt,level,right\na cat,light,1\na boat,light,0\n")
        assert scored(tmp_path) == [1, 0]
        (image,) = (tmp_path / "cache").glob("*.npz")
        before = image.stat().st_mtime_ns
        labels.write_text("prompt,level,right\na cat,light,0\na boat,light,1\nmore,light,1\n")
        assert scored(tmp_path) == [0, 1]
        assert image.stat().st_mtime_ns == before


def test_a_scorer_is_opened_once_for_all_that_it_judges(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def labels(file: str) -> dict[tuple[str, str], float]:
        opened.append(file)
        return {("a cat", "light"): 1.0}

    monkeypatch.setattr(quality, "labels", labels)
    scoring = Scoring(f"labels:{tmp_path / 'others.csv'}")
    scoring.check()
    for name in ("first", "second"):
        found = scoring.generate(GenerationPool(tmp_path / name), ORDERS)["light"].quality
        assert found[0] == 1
        assert np.isnan(found[1])
    assert len(opened) == 1
