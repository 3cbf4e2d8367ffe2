"""The classes that a catalog's classifiers predict of a profile's prompts; simulated requests are drawn by them."""

from collections.abc import Mapping, Sequence

import numpy as np

from agents.classifier.judges import Judgement, PromptJudge
from schemas.errors import PochadeError

NEAR = 0.001  # hardness may differ by so much: a profile keeps it with fewer digits


def classes_by_strategy(judged: Sequence[Judgement]) -> dict[str, np.ndarray]:
    """strategy -> predicted class, str [n], of the strategies that a classifier predicts."""
    strategies = sorted({strategy for each in judged for strategy in each.classes})
    return {strategy: np.array([each.classes[strategy] for each in judged]) for strategy in strategies}


def class_arrays(classes: Mapping[str, np.ndarray], prompts: int) -> dict[str, np.ndarray]:
    """The arrays `strategies` and `classes` of NAME-quality.npz, of this many prompts."""
    columns = list(classes.values())
    return {
        "strategies": np.array(list(classes), str),
        "classes": np.stack(columns, axis=1) if columns else np.zeros((prompts, 0), str),
    }


def with_classes(arrays: Mapping[str, np.ndarray], judge: PromptJudge) -> dict[str, np.ndarray]:
    """Return the arrays of NAME-quality.npz with the classes that the judge predicts for its prompts.

    Raises PochadeError if the judge finds another hardness than the profile states: another classifier measured it.
    """
    judged = [judge.classify(str(prompt)) for prompt in arrays["prompts"]]
    hardness = np.array([each.hardness for each in judged])
    apart = float(np.abs(hardness - arrays["hardness"]).max(initial=0.0))
    if apart > NEAR:
        found = f"{judge.name} finds a hardness that is up to {apart:.3f} from the profile's"
        raise PochadeError(f"{found}: it was profiled with another classifier; measure again with `pochade profile`")
    return {**arrays, **class_arrays(classes_by_strategy(judged), len(judged))}
