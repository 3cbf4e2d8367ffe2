"""An evaluation in figures: the dict that becomes `evaluate.json` and keeps to `schemas/evaluate.schema.json`."""

import importlib.resources
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from agents.lab.evaluation import pairs
from agents.lab.evaluation.observations import Classifier, Evaluation
from agents.lab.evaluation.statistics import classes, fid, levels
from agents.lab.evaluation.verdicts import explained, verdicts
from agents.profiling.statistics import sweeps
from agents.profiling.statistics.intervals import CONFIDENCE, Resampling

VERSION = 2
DECIMALS = 5


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `summarise`'s result."""
    loaded: dict[str, Any] = json.loads(
        importlib.resources.files("schemas").joinpath("evaluate.schema.json").read_text("utf-8")
    )
    return loaded


def summarise(evaluation: Evaluation, how: Resampling, notes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Every figure, ready for JSON: floats to five decimals, null where a figure is undefined or was not measured.

    `notes` says why a number was not reached, by the name of its verdict. Raises Unknown for a note on no verdict.
    """
    of_pairs = {name: pairs.figures(evaluation, pair, how) for name, pair in evaluation.pairs.items()}
    main = next(iter(of_pairs.values()))
    paint_over = _sweeps(evaluation, "paint_over", how)
    reuse = _sweeps(evaluation, "reuse", how)
    shipped = _shipped(paint_over)
    headline = (
        "pair", "light_at_least_as_good", "light_at_least_as_good_ci", "discriminators", "classifiers", "hybrid",
        "random_quality_at_half", "oracle_quality_at_half",
    )  # fmt: skip
    summary = {
        "version": VERSION,
        "prompts": len(evaluation.prompts),
        "seed": evaluation.seed,
        "stream": evaluation.stream,
        "confidence": CONFIDENCE,
        "resamples": how.resamples,
        "levels": levels.figures(evaluation, how),
        "fid_floor": None if evaluation.true_features is None else fid.floor(evaluation.true_features),
        "dominated": levels.dominated(evaluation.levels),
        "cheapest_right": levels.cheapest_right(evaluation.levels),
        "cost_ratio": levels.cost_ratio(evaluation.levels),
        **{key: main[key] for key in headline},
        "pairs": of_pairs,
        "classes": {
            name: _classes(evaluation, classifier)
            for name, classifier in evaluation.classifiers.items()
            if classifier.predicted is not None
        },
        "chosen_k": evaluation.chosen_k,
        "paint_over": shipped,
        "reuse": _shipped(reuse),
        "paint_over_variants": paint_over,
        "reuse_variants": reuse,
        "verdicts": [asdict(v) for v in explained(verdicts(evaluation, list(of_pairs.values()), shipped), notes or {})],
    }
    cleaned: dict[str, Any] = clean(summary)
    return cleaned


def _sweeps(evaluation: Evaluation, kind: str, how: Resampling) -> dict[str, Any]:
    """Each variant's rows, and for refinement also those of the drafts that had a fact wrong."""
    named = dict(evaluation.paint_over if kind == "paint_over" else evaluation.reuse)
    if kind == "paint_over" and named:
        wrong = ~evaluation.levels[evaluation.main.light].is_right
        named["bad drafts only"] = evaluation.shipped_refinement.where(wrong)
    return {
        name: {"blank": sweeps.blank(sweep, how), "points": sweeps.points(sweep, evaluation.hardness, how)}
        for name, sweep in named.items()
    }


def _shipped(variants: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the first variant; none where nothing was generated."""
    rows: list[dict[str, Any]] = next(iter(variants.values()))["points"] if variants else []
    return rows


def _classes(evaluation: Evaluation, classifier: Classifier) -> dict[str, Any]:
    assert classifier.predicted is not None
    chosen = [evaluation.levels[name] for name in classifier.levels]
    quality, cost_ms = np.stack([level.quality for level in chosen]), np.array([level.cost_ms for level in chosen])
    best = classes.best_choice(quality, cost_ms)
    return {
        "levels": list(classifier.levels),
        "confusion": classes.confusion(best, classifier.predicted, len(chosen)).tolist(),
        "accuracy": float((best == classifier.predicted).mean()),
        "regret": asdict(classes.regret(quality, cost_ms, classifier.predicted)),
    }


def clean(value: Any) -> Any:
    """Plain JSON values: numpy scalars and tuples gone, floats rounded, nan and infinities null."""
    if isinstance(value, dict):
        return {str(key): clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean(inner) for inner in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return round(float(value), DECIMALS) if math.isfinite(value) else None
    return value
