"""Discriminators fitted to planted rules: each kind learns what it can see, and is the same when it is loaded."""

from pathlib import Path

import numpy as np
import pytest

from agents.learning.calibration import auc
from agents.learning.discriminators.fitting import Fitted, Schedule, split
from agents.learning.discriminators.pixels import fit_pixels
from agents.models.discriminator import Discriminator
from agents.models.threads import one_thread
from schemas.errors import PochadeError
from tests.agents.learning.discriminators.planted import Drafts, drafts

pytestmark = pytest.mark.torch
BRIEF = Schedule(epochs=6, batch=24, rate=4e-3, patience=8)
TEST = drafts(200, 2)


def fitted_pixels(known: Drafts, seed: int = 1) -> Fitted:
    with one_thread():
        return fit_pixels(*known, seed=seed, device="cpu", schedule=BRIEF)


@pytest.fixture(scope="module")
def pixels() -> Fitted:
    return fitted_pixels(drafts(240, 1))


def test_pixels_learn_what_the_image_shows_of_the_prompt_and_not_only_the_prompt(pixels: Fitted) -> None:
    assert auc(pixels.logits(TEST.images, TEST.prompts), TEST.right > 0.5) > 0.8


def test_what_is_fitted_is_saved_and_judges_the_same_when_it_is_loaded(pixels: Fitted, tmp_path: Path) -> None:
    pixels.save(tmp_path / "mine", "mine", 2.0, 0.5, 0.4, held_out={"auc": 0.9})
    loaded = Discriminator.load(tmp_path / "mine")
    expected = 1 / (1 + np.exp(-(2 * pixels.logits(TEST.images, TEST.prompts) + 0.5)))
    assert loaded.score(TEST.images, TEST.prompts) == pytest.approx(expected, abs=0.02)  # fp16
    assert (loaded.name, loaded.kind, loaded.threshold) == ("mine", "pixels", 0.4)


def test_a_prompt_without_words_and_an_image_of_any_size_are_judged(pixels: Fitted) -> None:
    image = TEST.images[0]
    scores = pixels.logits([image, image.repeat(4, 0).repeat(4, 1)], ["", TEST.prompts[0]])
    assert np.isfinite(scores).all()
    assert pixels.logits([], []).shape == (0,)


def test_labels_that_say_nothing_of_right_and_wrong_are_refused() -> None:
    few = drafts(40, 3)
    with pytest.raises(PochadeError, match=r"20 labelled images or more.*got 40, 100% right"):
        fit_pixels(few.images, few.prompts, np.ones(40))
    with pytest.raises(PochadeError, match=r"got 10, 50% right"):
        fit_pixels(few.images, few.prompts, np.where(np.arange(40) < 10, np.arange(40) % 2, np.nan))


def test_images_of_one_prompt_are_held_out_together_and_only_labelled_ones_are() -> None:
    right = np.where(np.arange(400) % 4 == 0, np.nan, np.arange(400) % 2)
    fitted, held = split(right, [f"prompt {n // 4}" for n in range(400)], seed=1)
    assert not set(fitted // 4) & set(held // 4)
    assert not np.isnan(right[held]).any()
    assert 20 < len(held) < 70
