"""Scores of every ranker on the test prompts and images; the hybrid and thresholds by the calibration prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agents.classifier.predictors import QualityPredictor
from agents.lab.evaluation.observations import Classifier, Judged, Pair
from agents.lab.evaluation.statistics.classes import best_choice
from agents.lab.evaluation.statistics.hybrid import choose_hybrid
from agents.learning.bounds import Threshold, keep_threshold
from agents.profiling.generation.orders import GeneratedImages
from agents.profiling.generation.rankers import RANDOM_SCORES, RULES, Rankers, per_prompt_ms, random_scores

ALPHA = 0.1  # largest share of wrong images among those that a threshold keeps
_CHUNK = 128  # images judged at once

GeneratedSet = tuple[tuple[str, ...], Mapping[str, GeneratedImages]]  # prompts, and what each level made of them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ranked:
    """The rankers' part of an evaluation."""

    hardness: np.ndarray  # [n] as the product has it
    classifiers: dict[str, Classifier]
    pairs: dict[str, Pair]


def rank(
    rankers: Rankers,
    pairs: Mapping[str, tuple[str, str]],
    costs: Mapping[str, float],
    test: GeneratedSet,
    calibration: GeneratedSet,
) -> Ranked:
    """Everybody on both sets of prompts; `pairs` are name -> (light, heavy), `costs` level -> ms."""
    by_rules = tuple(
        np.array([rankers.rules.classify(prompt).hardness for prompt in prompts]) for prompts, _ in (test, calibration)
    )
    predicted = {
        name: (_quality(one, test[0]), _quality(one, calibration[0])) for name, one in rankers.predictors.items()
    }
    classifiers = {RULES: Classifier(ms=per_prompt_ms(rankers.rules.classify, test[0]))}
    for name, predictor in rankers.predictors.items():
        known = tuple(level for level in predictor.levels if level in costs)
        ms = per_prompt_ms(lambda prompt, p=predictor: p.quality([prompt]), test[0])  # type: ignore[misc]
        if len(known) < len(predictor.levels):
            others = sorted(set(predictor.levels) - set(known))
            rankers.missing.append(f"classes of classifier {name}: {', '.join(others)} are not generated here")
            classifiers[name] = Classifier(ms=ms)
            continue
        best = best_choice(predicted[name][0].T, np.array([costs[level] for level in known]))
        classifiers[name] = Classifier(ms=ms, levels=known, predicted=best)
    found = {
        name: _pair(rankers, light, heavy, test, calibration, by_rules, predicted)
        for name, (light, heavy) in pairs.items()
    }
    return Ranked(hardness=rankers.hardness(test[0]), classifiers=classifiers, pairs=found)


def _quality(predictor: QualityPredictor, prompts: Sequence[str]) -> np.ndarray:
    """[n, k], as its levels stand."""
    return np.array([[each[level] for level in predictor.levels] for each in predictor.quality(prompts)])


def _pair(
    rankers: Rankers, light: str, heavy: str, test: GeneratedSet, calibration: GeneratedSet,
    by_rules: tuple[np.ndarray, ...],
    predicted: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> Pair:  # fmt: skip
    judged, held_out = dict[str, Judged](), dict[str, np.ndarray]()
    for name in rankers.discriminators:
        scores = [_scores(rankers, name, *seen) for seen in ((test, light), (test, heavy), (calibration, light))]
        if all(score is not None for score in scores):
            judged[name], held_out[name] = Judged(light=scores[0], heavy=scores[1]), scores[2]  # type: ignore[arg-type,assignment]
    if not judged:
        rankers.discriminators[RANDOM_SCORES] = random_scores
        return _pair(rankers, light, heavy, test, calibration, by_rules, predicted)
    benefits, learned = {RULES: -by_rules[0]}, dict[str, np.ndarray]()
    for name, predictor in rankers.predictors.items():
        if {light, heavy} <= set(predictor.levels):
            at = [predictor.levels.index(level) for level in (light, heavy)]
            benefits[name], learned[name] = (made[:, at[0]] - made[:, at[1]] for made in predicted[name])
        else:
            rankers.missing.append(f"classifier {name} between {light} and {heavy}: it knows {predictor.levels}")
    generated = calibration[1]
    hybrid = choose_hybrid(
        learned or {RULES: -by_rules[1]}, held_out, generated[light].quality, generated[heavy].quality
    )
    right = generated[light].quality == 1
    thresholds = {name: keep_threshold(scores, right, alpha=ALPHA) for name, scores in held_out.items()}
    return Pair(
        light=light, heavy=heavy, discriminators=judged, benefits=benefits, hybrid=hybrid,
        thresholds={name: found for name, found in thresholds.items() if isinstance(found, Threshold)},
    )  # fmt: skip


def _scores(rankers: Rankers, name: str, generated: GeneratedSet, level: str) -> np.ndarray | None:
    prompts, images = generated[0], generated[1][level].images()
    parts = []
    for start in range(0, len(prompts), _CHUNK):
        part = rankers.confidences(name, list(images[start : start + _CHUNK]), prompts[start : start + _CHUNK])
        if part is None:
            return None
        parts.append(part)
    return np.concatenate(parts)
