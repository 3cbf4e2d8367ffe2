"""A few steps of each training: it runs, goes on where it stopped, and learns what is easy to learn."""

from pathlib import Path

import numpy as np
import pytest
import torch

from agents.lab.training.discriminators import prompt_aware, realness, scorer
from agents.lab.world import renderer
from agents.lab.world.scene import Scene
from agents.models.judges.prompt_aware import PromptAware
from agents.models.scorer import WIDTH
from tests.agents.lab.training.judging import a_scorer, an_examiner, judged_by, some_pictures, some_scenes


def blurred(count: int) -> np.ndarray:
    """Pictures that no renderer draws."""
    pictures = np.stack(some_pictures(count, 5)).astype(float)
    return np.asarray((pictures + np.roll(pictures, 2, 1) + np.roll(pictures, 2, 2)) / 3).astype(np.uint8)


def test_an_efficientnet_learns_to_tell_blurred_pictures_from_sharp_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realness, "BATCH", 24)
    fake, true = blurred(64), some_pictures(64, 6)
    trained = realness.train_real(tmp_path, "toy", realness.renderings, realness.images_from(fake), seed=1, steps=80)
    real, generated = trained.logits(true, [""] * 64), trained.logits(list(fake), [""] * 64)
    assert (real > generated.median()).float().mean() > 0.8


def test_a_finished_training_is_not_run_again(tmp_path: Path) -> None:
    drawn = []

    def counted(rng: np.random.Generator, count: int) -> np.ndarray:
        drawn.append(count)
        return realness.renderings(rng, count)

    fake = realness.images_from(blurred(8))
    first = realness.train_real(tmp_path, "toy", counted, fake, seed=1, steps=2)
    assert len(drawn) == 3
    again = realness.train_real(tmp_path, "toy", counted, fake, seed=1, steps=2)
    assert len(drawn) == 4  # once more, to measure it on fresh pictures
    picture = some_pictures(1)
    assert again.logits(picture, [""]) == pytest.approx(first.logits(picture, [""]))


def test_a_head_learns_on_embeddings_without_touching_the_tower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realness, "RENDERINGS", 128)
    whole, fake = a_scorer(), blurred(128)
    before = whole.features(some_pictures(2))
    trained = realness.train_embedding(tmp_path, whole, fake, seed=1, steps=150)
    assert (whole.features(some_pictures(2)) == before).all()
    real, generated = trained.logits(some_pictures(64, 7), [""] * 64), trained.logits(list(fake), [""] * 128)
    assert (real > generated.median()).float().mean() > 0.7


def test_renderings_for_the_judge_agree_with_their_prompt_two_times_in_three() -> None:
    drawn = prompt_aware.rendered(np.random.default_rng(1), 300)
    assert drawn.images.shape == (300, 48, 48, 3)
    assert drawn.shown.shape == (300, 59)
    assert drawn.right.mean() == pytest.approx(2 / 3, abs=0.08)


def test_a_judge_is_refined_on_drafts_and_a_finished_refinement_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_aware, "BATCH", 12)
    monkeypatch.setattr(prompt_aware, "_REFINE_RENDERED", 4)
    drafts, judges = judged_by(np.arange(16) % 2), []
    for _ in range(2):
        judge = an_examiner("look")
        assert isinstance(judge, PromptAware)
        before = judge.logits(list(drafts.images), [str(prompt) for prompt in drafts.prompts])
        judges.append(prompt_aware.refine(tmp_path, judge, drafts, seed=1, steps=3))
    first, again = (each.logits(list(drafts.images), [str(p) for p in drafts.prompts]) for each in judges)
    assert not torch.allclose(first, before)
    assert torch.equal(first, again)


def test_doubts_sum_up_to_the_judges_own_logits() -> None:
    judge, generator = an_examiner("look").judge, torch.Generator().manual_seed(1)  # type: ignore[attr-defined]
    inputs = [torch.rand(shape, generator=generator) for shape in ((3, 20, 96), (3, 19, 46), (3, 27))]
    doubts, logits = prompt_aware.doubted(judge, *inputs)
    assert doubts.shape == (3, 20, prompt_aware.DOUBTS)
    assert torch.equal(logits, judge(*inputs))


def test_slots_without_a_label_and_rows_that_do_not_count_teach_nothing() -> None:
    fits = torch.tensor([[1, 0, -1], [1, 0, -1]])
    counts = torch.tensor([True, False])
    right, wrong = torch.tensor([9.0, -9.0, 9.0]), torch.tensor([-9.0, 9.0, 9.0])
    least = prompt_aware.fitting_loss(torch.stack([right, wrong]), fits, counts)
    assert float(least) == pytest.approx(0, abs=1e-3)
    assert prompt_aware.fitting_loss(torch.stack([wrong, right]), fits, counts) > 5
    assert float(prompt_aware.fitting_loss(torch.stack([wrong, wrong]), fits, ~counts & counts)) == 0


def test_a_batch_for_the_scorer_knows_which_other_prompts_are_true_too() -> None:
    definite = [scene for scene in some_scenes(40, 3, 2) if not any(thing.is_unlike for thing in scene.objects)]
    scene, other = definite[:2]
    again = Scene(objects=scene.objects[::-1], background=scene.background, caption="", absent=scene.absent)
    also = scorer.also_true([scene, other, again], [scene, other, again])
    assert also.tolist() == [[False, False, True], [False, False, False], [True, False, False]]


def test_every_style_is_drawn_for_the_scorer() -> None:
    rng = np.random.default_rng(2)
    drawn = [scorer.style_for(rng).name for _ in range(400)]
    assert set(drawn) == {style.name for style in renderer.STYLES.values()}
    assert drawn.count("poster") > 200


def test_a_retold_sentence_has_no_new_words() -> None:
    rng = np.random.default_rng(3)
    sentence = "old harbour at dawn, fog, two boats, oil on canvas"
    for _ in range(20):
        assert set(scorer.retell(rng, sentence).replace(",", "").split()) <= set(sentence.replace(",", "").split())
    assert scorer.retell(rng, "x") == "x"


def test_contrast_is_least_where_pictures_and_prompts_match() -> None:
    generator = torch.Generator().manual_seed(1)
    unit = torch.nn.functional.normalize(torch.randn(3, 6, WIDTH, generator=generator), dim=-1)
    none, heat = torch.zeros(6, 6, dtype=torch.bool), torch.tensor(20.0)
    matched = scorer.contrast(unit[0], unit[0], unit[1], none, heat)
    assert matched < scorer.contrast(unit[0], unit[2], unit[1], none, heat)
    assert matched < scorer.contrast(unit[0], unit[0], unit[0], none, heat)  # a wrong prompt as near as the right one


def test_contrast_leaves_out_what_is_true_as_well() -> None:
    unit = torch.nn.functional.normalize(torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(1)), dim=-1)
    same = unit[:1].repeat(2, 1)  # one scene twice
    also, heat = ~torch.eye(2, dtype=torch.bool), torch.tensor(20.0)
    wrong = unit[1:].repeat(2, 1)
    assert float(scorer.contrast(same, same, wrong, also, heat)) == pytest.approx(0, abs=1e-3)
    assert float(scorer.contrast(same, same, wrong, ~also & also, heat)) > 0.5
