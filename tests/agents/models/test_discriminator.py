"""Discriminators: those of any weights, then the ones that ship."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from agents.lab.family import VARIANTS
from agents.lab.generator import ImageGenerator
from agents.lab.world import facts, renderer
from agents.learning.calibration import auc
from agents.models.discriminator import KINDS, Discriminator
from schemas.errors import PochadeError, Unknown
from tests.agents.lab.training.judging import an_examiner, save_discriminator, some_pictures, some_scenes
from tests.paths import MODELS, ROOT

pytestmark = pytest.mark.torch

SHIPPED = ("look", "real", "real-heavy", "embedding")
FREE_FORM = [
    "portrait of a dancing eagle woman, intricate, artstation",
    "an old lighthouse keeper reading letters by candlelight",
    "a robot barista pouring coffee, studio photo",
    "misty mountains at dawn, oil painting",
    "a cat wearing a golden crown, digital art",
    "cyberpunk street market in the rain, neon",
    "a tiny house on a floating island",
    "ein Hund im Garten",
]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_scores_the_same_when_loaded(kind: str, tmp_path: Path) -> None:
    examiner, images = an_examiner(kind), some_pictures(3)
    prompts = ["a red heart above a blue star", "", "moon"]
    loaded = Discriminator.load(save_discriminator(tmp_path / kind, kind, examiner))
    expected = 1 / (1 + np.exp(-(2 * examiner.logits(images, prompts).numpy() + 0.5)))  # its scale and shift
    assert loaded.score(images, prompts) == pytest.approx(expected, abs=0.01)  # fp16
    assert (loaded.name, loaded.kind, loaded.threshold) == (f"my {kind}", kind, 0.4)


@pytest.mark.parametrize("kind", ["network", "embedding"])
def test_a_kind_that_sees_the_image_alone_does_not_mind_the_prompt(kind: str, tmp_path: Path) -> None:
    judge = Discriminator.load(save_discriminator(tmp_path / kind, kind, an_examiner(kind)))
    image = some_pictures(1)[0]
    one, other = judge.score([image, image], ["a red heart", "a blue moon at night"])
    assert one == pytest.approx(other)


def test_an_image_of_any_size_is_scored(tmp_path: Path) -> None:
    judge = Discriminator.load(save_discriminator(tmp_path / "look", "look", an_examiner("look")))
    small = some_pictures(1)[0]
    one, other = judge.score([small, small.repeat(16, 0).repeat(16, 1)], ["a red heart"] * 2)
    assert one == pytest.approx(other, abs=1e-5)


def test_nothing_to_score_gives_nothing_and_a_prompt_too_few_is_refused(tmp_path: Path) -> None:
    judge = Discriminator.load(save_discriminator(tmp_path / "real", "network", an_examiner("network")))
    assert judge.score([], []) == []
    with pytest.raises(ValueError, match="2 images, 1 prompts"):
        judge.score(some_pictures(2), ["a red heart"])


def test_an_unknown_kind_lists_the_known_ones(tmp_path: Path) -> None:
    folder = save_discriminator(tmp_path / "it", "network", an_examiner("network"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"kind": "reel"}))
    with pytest.raises(Unknown, match="network"):
        Discriminator.load(folder)


def test_a_folder_without_weights_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(PochadeError, match=r"holds no model\.safetensors"):
        Discriminator.load(tmp_path)


def test_a_role_that_only_judges_needs_neither_diffusers_nor_transformers() -> None:
    code = (
        "import sys, agents.models.discriminator, agents.models.scorer;"
        "sys.exit(bool({'diffusers', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@cache
def shipped(name: str) -> Discriminator:
    folder = MODELS / "discriminators" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: train it with `pochade train discriminator`")
    return Discriminator.load(folder)


@cache
def light() -> ImageGenerator:
    if not (MODELS / "light").is_dir():
        pytest.skip("infra/models/light is not there: train it with `pochade train family`")
    return ImageGenerator.of(VARIANTS["light"])


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_one_is_small_and_knows_its_name_and_thresholds(name: str) -> None:
    judge, files = shipped(name), list((MODELS / "discriminators" / name).iterdir())
    assert judge.name == name
    assert 0 < judge.threshold < 1
    assert sum(file.stat().st_size for file in files) <= 2.5e6


def test_the_right_image_scores_above_the_same_image_with_another_prompt() -> None:
    scenes, images = some_scenes(100, 31), some_pictures(100, 31)
    captions = [scene.caption for scene in scenes]
    matched = np.array(shipped("look").score(images, captions))
    swapped = np.array(shipped("look").score(images, captions[1:] + captions[:1]))
    assert (matched > swapped).mean() >= 0.9


@cache
def drafts() -> tuple[list[str], np.ndarray]:
    """Captions, and the light level's images of them."""
    captions = [scene.caption for scene in some_scenes(150, 32)]
    return captions, light().generate(captions, range(150))


def test_that_of_the_papers_tells_true_images_from_drafts_it_was_not_fitted_on() -> None:
    captions, images = drafts()
    scores = shipped("real").score([*some_pictures(150, 32), *images], captions * 2)
    assert auc(np.array(scores), np.arange(300) < 150) > 0.6


def test_it_tells_right_light_images_from_wrong_ones() -> None:
    judge, (captions, images) = shipped("look"), drafts()
    held = np.array([facts.check(c, p).all_hold for c, p in zip(captions, images, strict=True)])
    scores = np.array(judge.score(list(images), captions))
    assert ((scores >= 0) & (scores <= 1)).all()
    assert auc(scores, held) >= 0.78
    assert abs(scores.mean() - held.mean()) <= 0.1  # calibrated on the whole


def test_confidence_varies_among_free_form_prompts() -> None:
    judge, images = shipped("look"), light().generate(FREE_FORM, range(len(FREE_FORM)))
    scores = judge.score(list(images), FREE_FORM)
    assert all(0 < score < 1 for score in scores)
    assert max(scores) - min(scores) > 0.05


def test_a_stated_size_is_looked_at() -> None:
    rng = np.random.default_rng(5)
    small, large = (
        [scene for scene in some_scenes(400, 33, 1) if scene.objects[0].size == size and scene.objects[0].slot == "C"]
        for size in ("small", "huge")
    )
    captions = [scene.caption for scene in small]
    scores = shipped("look").score([renderer.render(scene, rng) for scene in small], captions)
    wrong = [renderer.render(scene, rng) for scene in large][: len(small)]
    assert np.mean(scores) > np.mean(shipped("look").score(wrong, captions[: len(wrong)])) + 0.3
