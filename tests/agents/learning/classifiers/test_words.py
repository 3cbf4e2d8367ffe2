"""A classifier of words: learns what prompts a level fails at from judged images, and is served without torch."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agents.classifier.judges import LearnedClassifier
from agents.learning.classifiers.fitted import Fitted
from agents.learning.classifiers.words import fit_words
from agents.learning.recovery import recovery
from planner.catalog.entries import Classifier
from schemas.errors import PochadeError
from tests.paths import ROOT

LEVELS = ("light", "heavy")
ENTRY = Classifier("words", "learned", "learned/words", "models", LEVELS)
EASY, HARD = ("heart", "moon", "boat", "fish", "star"), ("violin", "hand", "clock", "bicycle", "crowd")


def prompts(count: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Prompts of three things, and the share of hard ones in each."""
    dice = np.random.default_rng(seed)
    hard = dice.random((count, 3)) < 0.3
    words = np.where(hard, dice.choice(HARD, (count, 3)), dice.choice(EASY, (count, 3)))
    return [f"a {a} above a {b} and a {c}" for a, b, c in words], hard.mean(1)


def labels(hard: np.ndarray, wrong: float, seed: int) -> np.ndarray:
    """Light is right with a chance of 1 less 1.2 times the hard share; heavy in 19 of 20; some are flipped."""
    dice = np.random.default_rng(seed)
    right = dice.random((len(hard), 2)) < np.stack([1 - 1.2 * hard, np.full(len(hard), 0.95)], 1)
    return np.where(dice.random(right.shape) < wrong, ~right, right).astype(float)


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    texts, hard = prompts(400, 1)
    quality = labels(hard, 0.2, 2)
    quality[80:, 1] = np.nan  # heavy has made few
    return fit_words(texts, quality, LEVELS, 3)


def test_a_fifth_of_wrong_labels_and_few_of_heavy_still_teach_which_prompts_are_hard(fitted: Fitted) -> None:
    texts, hard = prompts(600, 11)
    light, heavy = labels(hard, 0.0, 12).T
    benefit = np.array([q["light"] - q["heavy"] for q in fitted.quality(texts)])
    assert recovery(benefit, light, heavy, 1, 200).low > 0.2


def test_what_is_saved_judges_as_what_was_fitted(fitted: Fitted, tmp_path: Path) -> None:
    fitted.save(tmp_path / "words")
    judge = LearnedClassifier.load(tmp_path / "words", ENTRY)
    easy, hard = (judge.classify(f"a {' and a '.join(words[:3])}") for words in (EASY, HARD))
    assert easy.hardness < 0.3 < 0.7 < hard.hardness
    assert (easy.classes, hard.classes) == ({"models": "light"}, {"models": "heavy"})
    assert judge.name.startswith("words/1-")
    (asked,) = fitted.quality(["a violin above a clock and a moon"])
    assert judge.classify("a violin above a clock and a moon").evidence == asked


def test_hardness_is_a_rank_among_prompts_like_those_it_learnt_from(fitted: Fitted, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    judge = LearnedClassifier.load(tmp_path, ENTRY)
    hardness = [judge.classify(prompt).hardness for prompt in prompts(300, 21)[0]]
    assert 0.4 < float(np.median(hardness)) < 0.6
    assert np.percentile(hardness, 25) < 0.35
    assert np.percentile(hardness, 75) > 0.65


def test_the_same_seed_gives_the_same_classifier() -> None:
    texts, hard = prompts(40, 1)
    once, again = (fit_words(texts, labels(hard, 0.2, 2), LEVELS, 5) for _ in range(2))
    assert all(np.array_equal(once.weights[name], again.weights[name]) for name in once.weights)


def test_labels_that_say_nothing_give_every_prompt_the_average() -> None:
    texts, _ = prompts(300, 1)
    fitted = fit_words(texts, np.random.default_rng(7).integers(0, 2, (300, 2)).astype(float), LEVELS, 1)
    values = np.array([list(q.values()) for q in fitted.quality(prompts(50, 2)[0])])
    assert np.abs(values - 0.5).mean() < 0.1


@pytest.mark.parametrize("prompt", ["", "\0", "\ud800 broken", "一只红色的猫", "🎨" * 3000, "word " * 5000])
def test_any_text_gets_a_prediction(fitted: Fitted, prompt: str) -> None:
    (quality,) = fitted.quality([prompt])
    assert all(0 <= value <= 1 for value in quality.values())


def test_labels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(PochadeError, match=r"no image of heavy was judged"):
        fit_words(["a", "b"], np.array([[1.0, np.nan], [0.0, np.nan]]), LEVELS, 1)
    with pytest.raises(PochadeError, match=r"quality must be \[1, 2\]"):
        fit_words(["a"], np.zeros((2, 2)), LEVELS, 1)
    with pytest.raises(PochadeError, match=r"lie in 0\.\.1"):
        fit_words(["a"], np.array([[2.0, 1.0]]), LEVELS, 1)


def test_it_is_served_with_numpy_alone(fitted: Fitted, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    code = (
        "import sys, pathlib\n"
        "from agents.classifier.judges import LearnedClassifier\n"
        "from planner.catalog.entries import Classifier\n"
        "entry = Classifier('c', 'learned', 'f', 'models', ('light', 'heavy'))\n"
        f"LearnedClassifier.load(pathlib.Path({str(tmp_path)!r}), entry).classify('a red heart')\n"
        "print(sorted({'torch', 'transformers', 'tokenizers', 'scipy'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert out.stdout.strip() == "[]"
