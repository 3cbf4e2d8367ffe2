"""Discriminators fitted to planted rules: each kind learns what it can see, and is the same when it is loaded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, ViTConfig, ViTModel

from agents.learning.calibration import auc, confidence
from agents.learning.discriminators.embedding import fit_embedding
from agents.learning.discriminators.fitting import ESCALATED, Fitted, Schedule, real_against_generated, split
from agents.learning.discriminators.network import fit_network
from agents.learning.discriminators.pixels import fit_pixels
from agents.models.discriminator import Discriminator
from agents.models.scorer import ImageTower
from agents.models.threads import one_thread
from schemas.errors import PochadeError
from tests.agents.learning.discriminators.planted import Drafts, drafts
from tests.toys.tokenizers import clip_tokenizer

pytestmark = pytest.mark.torch
BRIEF = Schedule(epochs=6, batch=24, rate=4e-3, patience=8)
HEADS = Schedule(epochs=20, batch=16, rate=3e-3, decay=0.1)
TEST = drafts(200, 2)
TINY: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


def fitted_pixels(known: Drafts, seed: int = 1) -> Fitted:
    with one_thread():
        return fit_pixels(*known, seed=seed, device="cpu", schedule=BRIEF)


@pytest.fixture(scope="module")
def pixels() -> Fitted:
    return fitted_pixels(drafts(240, 1))


def test_pixels_learn_what_the_image_shows_of_the_prompt_and_not_only_the_prompt(pixels: Fitted) -> None:
    assert auc(pixels.logits(TEST.images, TEST.prompts), TEST.right > 0.5) > 0.8


def test_what_is_fitted_is_saved_and_judges_the_same_when_it_is_loaded(pixels: Fitted, tmp_path: Path) -> None:
    raw = pixels.logits(TEST.images, TEST.prompts)
    expected = confidence(raw, *pixels.save(tmp_path / "mine", "mine", raw, TEST.right))
    loaded = Discriminator.load(tmp_path / "mine")
    assert loaded.score(TEST.images, TEST.prompts) == pytest.approx(expected, abs=0.02)  # fp16
    assert (loaded.name, loaded.kind) == ("mine", "pixels")
    assert (expected < loaded.threshold).mean() == pytest.approx(ESCALATED, abs=0.01)


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


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The configuration of a vision transformer, without weights."""
    folder = tmp_path_factory.mktemp("vit")
    ViTConfig(image_size=32, patch_size=8, **TINY).save_pretrained(folder)
    return str(folder)


def test_a_network_learns_to_tell_real_images_from_generated_ones(vit: str) -> None:
    known, test = shown(drafts(240, 7)), shown(drafts(100, 8))
    real, generated = (
        [image for image, right in zip(known.images, known.right, strict=True) if right == label] for label in (1, 0)
    )
    fitted = fit_network(*real_against_generated(real, generated), vit, side=32, device="cpu", schedule=HEADS)
    assert auc(fitted.logits(test.images, test.prompts), test.right > 0.5) > 0.8


@pytest.mark.parametrize("architecture", ["small-efficientnet", "test_efficientnet", "vit"])
def test_a_network_is_saved_with_its_architecture(
    architecture: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    named = request.getfixturevalue("vit") if architecture == "vit" else architecture
    few, shares = drafts(40, 4), list[float]()
    fitted = fit_network(
        *few, named, side=32, device="cpu", schedule=Schedule(epochs=1, batch=8), progress=shares.append
    )
    assert len(shares) > 1
    assert shares[-1] == 1
    raw = fitted.logits(few.images, few.prompts)
    expected = confidence(raw, *fitted.save(tmp_path / "it", "it", raw, few.right))
    kept = json.loads((tmp_path / "it" / "config.json").read_text())["architecture"]
    assert architecture in (kept if isinstance(kept, str) else (kept.get("architecture"), kept["model_type"]))
    assert Discriminator.load(tmp_path / "it").score(few.images, few.prompts) == pytest.approx(expected, abs=0.02)


def test_an_architecture_that_nobody_knows_is_refused() -> None:
    with pytest.raises(PochadeError, match="'efficientnet-v9' is neither 'small-efficientnet' nor one of timm's"):
        fit_network(*drafts(40), "efficientnet-v9")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A CLIP of random weights, as transformers saves it."""
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("clip")
    tokenizer = clip_tokenizer()
    ends = {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": tokenizer.bos_token_id}
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 16, **ends, **TINY}
    vision = {"image_size": 32, "patch_size": 8, **TINY}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=24))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("with_prompt", [False, True])
def test_a_head_learns_on_a_frozen_encoder_that_its_folder_names(with_prompt: bool, clip: str, tmp_path: Path) -> None:
    known, test = (shown(drafts(count, seed)) for count, seed in ((240, 7), (100, 8)))
    shares = list[float]()
    fitted = fit_embedding(*known, clip, with_prompt=with_prompt, device="cpu", schedule=HEADS, progress=shares.append)
    assert shares == [128 / 240, 1.0]  # by parts of what the encoder reads
    scores = fitted.logits(test.images, test.prompts)
    assert auc(scores, test.right > 0.5) > 0.8
    expected = confidence(scores, *fitted.save(tmp_path / "it", "it", scores, test.right))
    assert (tmp_path / "it" / "model.safetensors").stat().st_size < 100_000
    loaded = Discriminator.load(tmp_path / "it").score(test.images, test.prompts)
    assert loaded == pytest.approx(expected, abs=0.02)


def test_a_head_learns_on_the_frozen_tower_of_the_family_which_its_folder_copies(tmp_path: Path) -> None:
    known, test = (shown(drafts(count, seed)) for count, seed in ((240, 7), (100, 8)))
    torch.manual_seed(4)
    fitted = fit_embedding(*known, ImageTower(), schedule=HEADS)
    scores = fitted.logits(test.images, test.prompts)
    assert auc(scores, test.right > 0.5) > 0.8
    expected = confidence(scores, *fitted.save(tmp_path / "it", "it", scores, test.right))
    assert Discriminator.load(tmp_path / "it").score(test.images, test.prompts) == pytest.approx(expected, abs=0.02)


def test_an_encoder_of_images_alone_is_refused_where_it_should_read_prompts(tmp_path: Path) -> None:
    folder = str(tmp_path / "vit")
    ViTModel(ViTConfig(image_size=32, patch_size=8, **TINY)).save_pretrained(folder)
    with pytest.raises(PochadeError, match="ViTModel, which reads no prompts"):
        fit_embedding(*drafts(40), folder, with_prompt=True)


def shown(known: Drafts) -> Drafts:
    """With labels that the image alone decides: whether it is red or white."""
    right = [float(image[..., 0].max() > 210) for image in known.images]
    return known._replace(right=np.array(right))
