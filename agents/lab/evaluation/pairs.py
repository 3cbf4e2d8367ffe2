"""A pair's part of evaluate.json: how often light is good enough, and the figures of each ranker."""

from dataclasses import asdict
from typing import Any

import numpy as np

from agents.lab.evaluation.observations import HYBRID, ORACLE, RANDOM, Evaluation, Judged, Pair
from agents.lab.evaluation.statistics.merits import HALF, SHARES, Merits, are_probabilities, merits
from agents.learning import calibration
from agents.learning.bounds import Threshold
from agents.learning.calibration import auc
from agents.profiling.statistics.intervals import Resampling, mean, proportion
from agents.profiling.statistics.sweeps import quarters


def figures(evaluation: Evaluation, pair: Pair, how: Resampling) -> dict[str, Any]:
    """Everything the report says of one pair."""
    light, heavy = evaluation.levels[pair.light], evaluation.levels[pair.heavy]
    as_good = light.quality >= heavy.quality
    quarter = quarters(evaluation.hardness)
    found = merits(evaluation, pair, how)
    return {
        "pair": {"light": pair.light, "heavy": pair.heavy},
        "light_quality": float(light.quality.mean()),
        "heavy_quality": float(heavy.quality.mean()),
        **proportion(as_good).fields("light_at_least_as_good"),
        "light_at_least_as_good_by_quarter": [
            proportion(as_good[quarter == q]).fields("value", "ci") for q in range(4)
        ],
        **proportion(light.quality == heavy.quality).fields("ties"),
        **mean(heavy.quality - light.quality, how).fields("heavy_above_light"),
        "quality_gap_by_quarter": [
            mean((heavy.quality - light.quality)[quarter == q], how).fields("value", "ci") for q in range(4)
        ],
        "discriminators": {
            name: {**_ranker(found, name), **_judged(evaluation, pair, name, judged)}
            for name, judged in pair.discriminators.items()
        },
        "classifiers": {
            name: {**_ranker(found, name), "ms": evaluation.classifiers[name].ms} for name in pair.benefits
        },
        "hybrid": {**_ranker(found, HYBRID), **_hybrid(found, pair)},
        "random_quality_at_half": found.curve(RANDOM)[HALF].value,
        "oracle_quality_at_half": found.curve(ORACLE)[HALF].value,
        "curves": {"share": SHARES.tolist(), "quality": {name: _curve(found, name) for name in found.names}},
        "in_facts": _in_facts(evaluation, pair, how),
    }


def _in_facts(evaluation: Evaluation, pair: Pair, how: Resampling) -> dict[str, Any]:
    """The rankers again, where an image counts for the share of its facts that hold."""
    found = merits(evaluation, pair, how, by_facts=True)
    return {
        "random_quality_at_half": found.curve(RANDOM)[HALF].value,
        "oracle_quality_at_half": found.curve(ORACLE)[HALF].value,
        "rankers": {name: _ranker(found, name) for name in found.names if name not in (ORACLE, RANDOM)},
    }


def _ranker(found: Merits, name: str) -> dict[str, Any]:
    return {
        **found.auc(name).fields("auc"),
        **found.recovery(name).fields("recovery_at_half", "ci"),
        **found.curve(name)[HALF].fields("quality_at_half"),
        **found.gain(name).fields("gain_at_half"),
    }


def _curve(found: Merits, name: str) -> dict[str, list[float]]:
    curve = found.curve(name)
    return {
        "value": [estimate.value for estimate in curve],
        "low": [estimate.low for estimate in curve],
        "high": [estimate.high for estimate in curve],
    }


def _hybrid(found: Merits, pair: Pair) -> dict[str, Any]:
    """The hybrid's two rankers, and how it compares with the better of them."""
    chosen = (pair.hybrid.prompt, pair.hybrid.image)
    better = max(chosen, key=lambda name: np.nan_to_num(found.recovery(name).value, nan=-np.inf))
    return {
        "prompt": pair.hybrid.prompt,
        "image": pair.hybrid.image,
        "weight": pair.hybrid.weight,
        "better": better,
        **found.recovery_above(HYBRID, better).fields("above_better"),
    }


def _judged(evaluation: Evaluation, pair: Pair, name: str, judged: Judged) -> dict[str, Any]:
    """Return how well the scores separate right images from wrong ones, and how well they are calibrated."""
    right = evaluation.levels[pair.light].is_right
    out: dict[str, Any] = {"auc_right_light": auc(judged.light, right), "auc_right_heavy": None}
    if judged.heavy is not None:
        out["auc_right_heavy"] = auc(judged.heavy, evaluation.levels[pair.heavy].is_right)
    if are_probabilities(judged.light):
        out |= {
            "brier": calibration.brier(judged.light, right),
            "ece": calibration.expected_error(judged.light, right),
            "reliability": [asdict(b) for b in calibration.reliability(judged.light, right)],
        }
    if name in pair.thresholds:
        out["threshold"] = _threshold(pair.thresholds[name], judged.light, right)
    return out


def _threshold(found: Threshold, scores: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Return the promised bound, and the share measured on these prompts."""
    kept = scores >= found.value
    return {
        **asdict(found),
        "fresh_kept_share": float(kept.mean()),
        **proportion(~right[kept]).fields("fresh_wrong_share"),
    }
