"""Training a predictor, on an untrained text side and made-up qualities."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from agents.classifier.judges import read_reference
from agents.lab.training.classifiers import calibration, predictor, rule_search, rules
from agents.lab.training.classifiers.calibration import Calibration
from agents.lab.training.classifiers.quality_head import Logits
from agents.lab.world import scenes
from agents.models.predictor import Predictor
from tests.agents.lab.training.predictors import a_text_side, a_tokenizer

RNG = np.random.default_rng(9)
SCENES = [scenes.sample(RNG, int(RNG.integers(1, 4))) for _ in range(160)]


def made_up() -> Calibration:
    """Light fails wherever a heart is asked for; heavy never does; the middle one paints every other prompt."""
    bad = np.array([any(thing.shape == "heart" for thing in scene.objects) for scene in SCENES])
    quality = np.stack(
        [np.where(bad, 0.0, 1.0), np.where(bad & (np.arange(len(bad)) % 3 == 1), 0.0, 1.0), np.ones(len(bad))], 1
    )
    quality[::2, 1] = np.nan
    return Calibration(tuple(s.caption for s in SCENES), ("light", "middle", "heavy"), quality, 0.5 + quality / 2)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A work folder with a calibration set and the untrained text side."""
    monkeypatch.setattr(predictor, "frozen", lambda _: a_text_side())
    monkeypatch.setattr(predictor, "STEPS", 120)
    monkeypatch.setattr(predictor, "_RATE", 6e-3)  # all of it is warm-up
    monkeypatch.setattr(predictor, "BATCH", 48)
    monkeypatch.setattr(predictor, "OUTSIDE", 40)
    monkeypatch.setattr("agents.lab.training.classifiers.hardness_reference.COUNT", 60)
    work = tmp_path / "work"
    (work / "tokenizer").mkdir(parents=True)
    (work / "tokenizer" / "tokenizer.json").write_text(json.dumps(json.loads(a_tokenizer().to_str())))
    calibration.write(work / "calibration" / "made-up.npz", made_up(), [1.0, 2.0, 9.0])
    return work


def test_a_predictor_learns_which_words_a_level_fails_on(quick: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    predictor.learn(quick, folder, "models", made_up(), seed=4)
    trained = Predictor.load(folder)
    heart, boat = trained.quality(["a red heart", "a red boat"])
    assert heart["light"] < boat["light"] - 0.2
    assert heart["light"] < heart["heavy"] - 0.2
    reference = read_reference(folder / "reference.json")
    assert reference.version.startswith("models-predictor/1-")
    assert reference.weights == {}
    notes = json.loads((quick / "predictor_models.json").read_text())
    assert notes["held_out"]["light"]["auc"] > 0.8
    assert notes["pair"]["auc"] > 0.8
    assert np.array(notes["classes"]["confusion"]).sum() == notes["classes"]["prompts"]


def test_training_goes_on_where_it_stopped_to_the_same_end(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictor, "STEPS", 6)
    predictor.learn(quick, tmp_path / "whole", "models", made_up(), seed=4)
    torch.manual_seed(99)
    predictor.learn(
        quick, tmp_path / "again", "models", made_up(), seed=4
    )  # from the checkpoint: nothing is left to do
    whole, again = (Predictor.load(tmp_path / name).predict(["a red heart"]).quality for name in ("whole", "again"))
    assert np.array_equal(whole, again)


def test_each_strategy_of_two_levels_or_more_gets_its_own(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: dict[str, tuple[str, ...]] = {}
    monkeypatch.setattr(predictor, "learn", lambda *given: learned.update({given[2]: given[3].levels}))
    ruled: list[tuple[str, ...]] = []
    monkeypatch.setattr(rules, "train", lambda *given: ruled.append(given[3].levels))
    predictor.train(quick, tmp_path / "models", seed=1)
    assert learned == {"models": ("light", "middle", "heavy")}
    table = Calibration(("a red heart",), ("heavy~k4",), np.array([[0.5]]), np.array([[0.5]]))
    calibration.write(quick / "calibration" / "reuse.npz", table, [5.0])
    predictor.train(quick, tmp_path / "models", seed=1)
    assert learned["reuse"] == ("heavy~k4", "heavy")
    assert ruled == [("light", "middle", "heavy")] * 2


def test_the_rules_are_searched_written_and_reported(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_search, "DRAWS", 30)
    monkeypatch.setattr(rule_search, "REFINED", 10)
    rules.train(quick, tmp_path / "models", 5, made_up())
    reference = read_reference(tmp_path / "models" / "rules" / "reference.json")
    assert reference.version.startswith("hadis-rules/3-")
    told = json.loads((quick / "rules.json").read_text())
    assert told["pair"] == ["light", "heavy"]
    assert told["weights"] == pytest.approx(reference.weights)
    assert {"searched", "equal_weights", "number_of_objects", "random_routers"} <= set(told)
    held_out = made_up().held_out()
    assert (told["taught"], told["prompts"]) == ((~held_out).sum(), held_out.sum())  # reported on what taught nothing
    assert told["taught"] > 2 * told["prompts"]


def test_what_is_not_known_of_a_prompt_teaches_nothing() -> None:
    said = Logits(torch.zeros(3, 2), torch.zeros(3, 2), torch.zeros(3))
    known, nothing = torch.tensor([[1.0, 0.0]]), torch.zeros(1, 2)
    losses = [
        predictor.losses(said, torch.tensor([[1.0, unknown]]), torch.tensor([[unknown, unknown]]), known, nothing)
        for unknown in (0.0, 1.0)
    ]
    assert losses[0] == losses[1] > 0
