"""The scorer: embeddings of any weights, then the one that ships."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from agents.lab.training.discriminators import retrieval
from agents.lab.training.discriminators.hard_negatives import reworded, with_colours_decided
from agents.lab.training.discriminators.retrieval import measure, shared_share
from agents.lab.world import renderer, scenes
from agents.models.saved import save
from agents.models.scorer import WIDTH, Scorer
from tests.agents.lab.training.judging import a_scorer, keep_tokenizer, some_pictures, some_scenes
from tests.paths import MODELS

pytestmark = pytest.mark.torch

SHIPPED = MODELS / "scorer"
ODD = ["", "❤️ Übermut, 日本語", "word " * 300, "a red heart"]


@cache
def shipped() -> Scorer:
    if not SHIPPED.is_dir():
        pytest.skip(f"{SHIPPED} is not there: train it with `pochade train scorer`")
    return Scorer.load(SHIPPED)


def test_embeddings_have_unit_length_whatever_the_prompt() -> None:
    scorer = a_scorer()
    for embedding in (scorer.embed_prompts(ODD), scorer.embed_images(some_pictures(4))):
        assert embedding.shape == (4, WIDTH)
        assert embedding.dtype == np.float32
        assert np.linalg.norm(embedding, axis=1) == pytest.approx(np.ones(4), abs=1e-5)


def test_a_prompt_has_the_same_embedding_alone_and_among_hundreds() -> None:
    scorer, prompts = a_scorer(), ["a red heart", "a blue star at night"] * 150
    assert scorer.embed_prompts(prompts)[298:] == pytest.approx(scorer.embed_prompts(prompts[:2]), abs=1e-5)


def test_nothing_has_no_embedding() -> None:
    scorer = a_scorer()
    assert scorer.embed_prompts([]).shape == scorer.features([]).shape == (0, WIDTH)


def test_the_score_is_the_cosine_of_image_and_prompt() -> None:
    scorer, images, prompts = a_scorer(), some_pictures(3), ["a red heart", "a moon", "a blue star"]
    features = scorer.features(images)
    cosine = (features * scorer.embed_prompts(prompts)).sum(1) / np.linalg.norm(features, axis=1)
    assert scorer.score(images, prompts) == pytest.approx(cosine, abs=1e-5)
    with pytest.raises(ValueError, match="3 images, 1 prompts"):
        scorer.score(images, prompts[:1])


def test_what_is_saved_embeds_the_same_when_loaded(tmp_path: Path) -> None:
    scorer, images = a_scorer(), some_pictures(2)
    save(tmp_path / "scorer", scorer.encoder.config, scorer.parts())
    keep_tokenizer(tmp_path / "scorer")
    loaded = Scorer.load(tmp_path / "scorer")
    assert loaded.embed_prompts(ODD) == pytest.approx(scorer.embed_prompts(ODD), abs=5e-3)  # fp16
    assert loaded.embed_images(images) == pytest.approx(scorer.embed_images(images), abs=5e-3)


def test_an_untrained_scorer_measures_no_better_than_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "AMONG", 48)
    figures = measure(a_scorer(), 3)
    assert figures["retrieved"] < 0.1
    assert figures["right_over_wrong"] < 0.7


def test_scenes_share_what_both_have() -> None:
    one, other = some_scenes(2, 4, 1)
    assert shared_share(one, one) == 1
    assert 0 <= shared_share(one, other) == shared_share(other, one) < 1


def test_the_shipped_one_finds_an_image_among_96_and_sees_a_changed_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "AMONG", 96)
    monkeypatch.setattr(retrieval, "_BATCHES", 1)  # each with figures of its own
    figures = measure(shipped(), 77)
    assert figures["retrieved"] >= 0.9
    assert figures["right_over_wrong"] >= 0.9
    assert figures["free_form_alike"] >= 0.9


def test_the_shipped_one_scores_an_image_above_the_same_with_a_fact_changed_in_the_prompt() -> None:
    rng = np.random.default_rng(8)
    stated = [scenes.sample(rng) for _ in range(100)]
    shown = [with_colours_decided(rng, scene) for scene in stated]
    images = [renderer.render(scene, rng) for scene in shown]
    right = shipped().score(images, [scene.caption for scene in stated])
    wrong = shipped().score(images, [reworded(rng, s.caption, seen) for s, seen in zip(stated, shown, strict=True)])
    assert right.mean() > wrong.mean() + 0.05
