"""A few steps of each training: it runs, goes on where it stopped, and learns what is easy to learn."""

from pathlib import Path

import numpy as np
import pytest
import torch

from agents.lab.training.discriminators import prompt_aware, scorer
from agents.lab.world import renderer
from agents.lab.world.scene import Scene
from agents.models.judges.prompt_aware import PromptAware
from agents.models.scorer import WIDTH
from tests.agents.lab.training.judging import an_examiner, judged_by, some_scenes


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
