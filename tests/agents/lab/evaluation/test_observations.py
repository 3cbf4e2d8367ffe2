"""What an evaluation refuses, and that it comes back from disk as it was."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agents.lab.evaluation.observations import Classifier, Evaluation, Judged
from agents.lab.evaluation.storage import load, save
from agents.lab.evaluation.summary import summarise
from agents.profiling.statistics.intervals import Resampling
from schemas.errors import PochadeError
from tests.agents.lab.evaluation.builders import an_evaluation

WHOLE = an_evaluation(40)


def with_level(**changes: object) -> Evaluation:
    return replace(WHOLE, levels={**WHOLE.levels, "tiny": replace(WHOLE.levels["tiny"], **changes)})


def with_pair(**changes: object) -> Evaluation:
    return replace(WHOLE, pairs={"main": replace(WHOLE.main, **changes)})


def with_sweep(**changes: object) -> Evaluation:
    return replace(WHOLE, paint_over={"own noise": replace(WHOLE.shipped_refinement, **changes)})


REFUSED: dict[str, Callable[[], Evaluation]] = {
    r"hardness must be \[40\]": lambda: replace(WHOLE, hardness=np.zeros(39)),
    r"hardness must lie in 0..1": lambda: replace(WHOLE, hardness=np.full(40, 1.5)),
    r"quality of tiny must lie in 0..1: got 2..2": lambda: with_level(quality=np.full(40, 2.0)),
    r"quality of tiny must be finite: 40 of 40": lambda: with_level(quality=np.full(40, np.nan)),
    r"facts of tiny must lie in 0\.\.1": lambda: with_level(facts=np.full(40, 2.0)),
    r"unknown level 'tniy'.*did you mean 'tiny'": lambda: with_pair(light="tniy"),
    r"unknown classifier 'oracle of delphi'": lambda: with_pair(benefits={"oracle of delphi": np.zeros(40)}),
    r"names of their own": lambda: with_pair(
        discriminators={**WHOLE.main.discriminators, "mlp": Judged(light=np.zeros(40))}
    ),
    r"not oracle, random, hybrid: got \['random'\]": lambda: with_pair(
        discriminators={**WHOLE.main.discriminators, "random": Judged(light=np.zeros(40))}
    ),
    r"unknown discriminator 'facts'": lambda: with_pair(discriminators={"cosine": Judged(light=np.zeros(40))}),
    r"classes of mlp must be rows of its 1 levels": lambda: replace(
        WHOLE,
        classifiers={
            **WHOLE.classifiers,
            "mlp": Classifier(ms=1, levels=("tiny",), predicted=np.ones(40, int)),
        },
    ),
    r"steps of own noise must rise": lambda: with_sweep(k=np.array([0, 5, 10, 20, 40, 30])),
    r"chosen_k must be one of the swept steps: got 7": lambda: replace(WHOLE, chosen_k=7),
    r"four prompts or more and a pair: got 40 and 0": lambda: replace(WHOLE, pairs={}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_together_is_refused_in_words(message: str) -> None:
    with pytest.raises(PochadeError, match=message):
        REFUSED[message]()


def test_an_evaluation_comes_back_from_disk_with_the_same_figures(tmp_path: Path) -> None:
    how = Resampling(seed=1, resamples=20)
    save(WHOLE, tmp_path / "deep" / "er")
    assert summarise(load(tmp_path / "deep" / "er"), how) == summarise(WHOLE, how)


def test_what_was_not_measured_is_still_not_measured_after_loading(tmp_path: Path) -> None:
    save(replace(WHOLE, paint_over={}, reuse={}, chosen_k=None, true_features=None), tmp_path)
    loaded = load(tmp_path)
    assert loaded.true_features is None
    assert not loaded.paint_over
    assert loaded.classifiers["rule"].predicted is None


def test_a_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    save(WHOLE, tmp_path)
    tree = json.loads((tmp_path / "observations.json").read_text())
    (tmp_path / "observations.json").write_text(json.dumps(tree | {"version": 99}))
    with pytest.raises(PochadeError, match="version 99, this is 2"):
        load(tmp_path)
