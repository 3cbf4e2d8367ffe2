"""Classifiers on networks of transformers: a frozen encoder with heads, and a BERT that is tuned."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")
from agents.classifier.judges import LearnedClassifier
from agents.lab.training.classifiers.bert import write_blank
from agents.learning.classifiers.fitted import Fitted
from agents.learning.classifiers.pretrained import fit_bert, fit_encoder
from agents.learning.recovery import recovery
from schemas.errors import PochadeError
from tests.agents.learning.classifiers.test_words import EASY, ENTRY, HARD, LEVELS, labels, prompts

pytestmark = pytest.mark.torch
KINDS = ("encoder", "bert")


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("blank")
    write_blank(folder, prompts(100, 5)[0], 1, width=16, layers=1)
    return str(folder)


@pytest.fixture(scope="module")
def fitted(blank: str) -> dict[str, Fitted]:
    texts, hard = prompts(240, 1)
    quality = labels(hard, 0.1, 2)
    quality[:40, 1] = np.nan
    return {
        "encoder": fit_encoder(texts, quality, LEVELS, 3, blank, device="cpu"),
        "bert": fit_bert(texts, quality, LEVELS, 3, blank, epochs=12, rate=1e-2, device="cpu"),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_which_prompts_are_hard_and_is_opened_again_as_it_was(
    kind: str, fitted: dict[str, Fitted], tmp_path: Path
) -> None:
    texts, hard = prompts(300, 11)
    light, heavy = labels(hard, 0.0, 12).T
    said = fitted[kind].quality(texts)
    assert recovery(np.array([q["light"] - q["heavy"] for q in said]), light, heavy, 1, 100).low > 0
    fitted[kind].save(tmp_path / kind)
    judge = LearnedClassifier.load(tmp_path / kind, ENTRY)
    judged = judge.classify(texts[0])
    assert judged.evidence == pytest.approx(said[0], abs=1e-4)
    assert judge.name.startswith(f"{kind}/1-")
    easy, hard_one = (judge.classify(f"a {' and a '.join(words[:3])}").hardness for words in (EASY, HARD))
    assert easy < hard_one


@pytest.mark.parametrize("kind", KINDS)
def test_any_text_gets_a_prediction_alone_and_among_others(kind: str, fitted: dict[str, Fitted]) -> None:
    texts = ["", "\0", "\ud800 broken", "一只红色的猫", "🎨" * 900, "word " * 3000, "a violin"]
    together = fitted[kind].quality(texts)
    assert all(0 <= value <= 1 for each in together for value in each.values())
    assert fitted[kind].quality(texts[-1:])[0] == pytest.approx(together[-1], abs=1e-5)


def test_tuning_shows_how_far_it_is_and_is_the_same_by_seed(blank: str) -> None:
    texts, hard = prompts(60, 1)
    seen: list[float] = []
    once, again = (
        fit_bert(texts, labels(hard, 0.1, 2), LEVELS, 4, blank, epochs=2, device="cpu", progress=seen.append)
        for _ in range(2)
    )
    assert once.quality(texts[:5]) == again.quality(texts[:5])
    assert seen[: len(seen) // 2] == sorted(seen[: len(seen) // 2])
    assert seen[-1] == 1.0


def test_a_model_that_is_not_there_says_so() -> None:
    with pytest.raises(PochadeError, match="does not exist"):
        fit_encoder(["a"], np.ones((1, 2)), LEVELS, 1, "./nowhere")
