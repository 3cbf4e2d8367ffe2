"""The classes that a catalog's classifiers predict of a profile's prompts."""

import numpy as np
import pytest

from agents.classifier.judges import Judgement
from agents.profiling.classes import class_arrays, classes_by_strategy, with_classes
from schemas.errors import PochadeError


class Judge:
    name = "by length"

    def classify(self, prompt: str) -> Judgement:
        return Judgement(len(prompt) / 10, {"models": "heavy" if len(prompt) > 5 else "light"}, None)


def test_a_profile_gets_the_class_of_each_prompt_and_keeps_what_it_has() -> None:
    arrays = {"prompts": np.array(["cat", "two cats"]), "hardness": np.array([0.3, 0.8], np.float32)}
    found = with_classes(arrays, Judge())
    assert found["strategies"].tolist() == ["models"]
    assert found["classes"].tolist() == [["light"], ["heavy"]]
    assert found["hardness"] is arrays["hardness"]


def test_a_classifier_that_finds_another_hardness_was_not_the_one_that_was_profiled() -> None:
    arrays = {"prompts": np.array(["cat"]), "hardness": np.array([0.5])}
    with pytest.raises(PochadeError, match=r"up to 0\.200 from the profile's.*measure again"):
        with_classes(arrays, Judge())


def test_where_no_classifier_predicts_a_class_none_is_recorded() -> None:
    arrays = class_arrays(classes_by_strategy([Judgement(0.1, {}, None)]), 1)
    assert arrays["strategies"].tolist() == []
    assert arrays["classes"].shape == (1, 0)
