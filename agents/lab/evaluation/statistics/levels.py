"""Quality and cost of each level: overall, by difficulty, by number of objects; and which levels are dominated."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from agents.lab.evaluation.observations import Evaluation, Level
from agents.lab.evaluation.statistics import fid
from agents.lab.evaluation.statistics.classes import best_choice
from agents.lab.world.facts import KINDS
from agents.profiling.statistics.intervals import Resampling, mean, proportion
from agents.profiling.statistics.sweeps import quarters

EASY, HARD = 0, 3
FID_RESAMPLES = 100  # a distance costs milliseconds, and only its spread is wanted


def figures(evaluation: Evaluation, how: Resampling) -> dict[str, dict[str, Any]]:
    """Level -> its part of evaluate.json."""
    quarter = quarters(evaluation.hardness)
    return {name: _figures(level, evaluation, quarter, how) for name, level in evaluation.levels.items()}


def _figures(level: Level, evaluation: Evaluation, quarter: np.ndarray, how: Resampling) -> dict[str, Any]:
    by_quarter = [proportion(level.is_right[quarter == q]) for q in range(4)]
    facts_by_quarter = [mean(level.facts[quarter == q], how) for q in range(4)]
    return {
        **proportion(level.is_right).fields("quality"),
        **mean(level.facts, how).fields("facts"),
        **by_quarter[EASY].fields("quality_easy"),
        **by_quarter[HARD].fields("quality_hard"),
        "quality_by_quarter": [estimate.fields("value", "ci") for estimate in by_quarter],
        "facts_by_quarter": [estimate.fields("value", "ci") for estimate in facts_by_quarter],
        "quality_by_objects": {
            str(number): {
                **proportion(level.is_right[evaluation.objects == number]).fields("value", "ci"),
                "prompts": int((evaluation.objects == number).sum()),
            }
            for number in np.unique(evaluation.objects).tolist()
        },
        "cost_ms": level.cost_ms,
        **_distance(level, evaluation.true_features, how),
        **_misses(level),
    }


def _distance(level: Level, true: np.ndarray | None, how: Resampling) -> dict[str, float | None]:
    if level.features is None or true is None:
        return {"fid": None, "fid_standard_error": None}
    fewer = Resampling(seed=how.seed, resamples=min(how.resamples, FID_RESAMPLES))
    return {
        "fid": fid.frechet_distance(level.features, true),
        "fid_standard_error": fid.standard_error(level.features, true, fewer),
    }


def _misses(level: Level) -> dict[str, Any]:
    """Kind -> the share of all prompts whose image misses a fact of it; nothing where that was not looked at."""
    if level.missed is None:
        return {}
    return {"misses": {kind: proportion(level.missed[:, at]).fields("value", "ci") for at, kind in enumerate(KINDS)}}


def cheapest_right(levels: Mapping[str, Level]) -> dict[str, Any]:
    """Level -> the share of prompts of which it is the cheapest with all facts right; "" where no level has."""
    by_cost = sorted(levels, key=lambda name: levels[name].cost_ms)
    right = np.stack([levels[name].is_right for name in by_cost])
    first = np.where(right.any(0), right.argmax(0), len(by_cost))
    return {name: proportion(first == at).fields("value", "ci") for at, name in enumerate([*by_cost, ""])}


def best_shares(levels: Mapping[str, Level]) -> dict[str, float]:
    """Level -> share of the prompts of which it is `classes.best_choice`; where all fail, that is the cheapest."""
    quality = np.stack([level.quality for level in levels.values()])
    chosen = best_choice(quality, np.array([level.cost_ms for level in levels.values()]))
    return {name: float((chosen == at).mean()) for at, name in enumerate(levels)}


def dominated(levels: Mapping[str, Level]) -> dict[str, str]:
    """Level -> the best of those that cost no more and are no worse, and better in one of the two; on mean quality."""
    at = {name: (level.cost_ms, float(level.quality.mean())) for name, level in levels.items()}
    worse = {}
    for name, (cost, quality) in at.items():
        better = [other for other, (c, q) in at.items() if c <= cost and q >= quality and (c, q) != (cost, quality)]
        if better:
            worse[name] = max(better, key=lambda other: at[other][1])
    return worse


def cost_ratio(levels: Mapping[str, Level]) -> float:
    """The dearest level's cost over the cheapest's."""
    costs = [level.cost_ms for level in levels.values()]
    return max(costs) / min(costs)
