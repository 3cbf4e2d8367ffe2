"""A trained predictor as a folder, with its figures on prompts that were not taught."""

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from agents.lab.evaluation.statistics.classes import best_choice, confusion, regret
from agents.lab.training.classifiers.calibration import Calibration
from agents.lab.training.classifiers.hardness_reference import DESCRIPTION, reference_prompts
from agents.lab.training.classifiers.quality_head import QualityHead, TextSide
from agents.lab.training.classifiers.rule_search import merits
from agents.lab.training.discriminators.frozen_text import copy_tokenizer
from agents.lab.world.stream import STANDARD
from agents.learning.calibration import figures as judged_figures
from agents.learning.classifiers.fitted import write_reference
from agents.models.predictor import Predictor
from agents.models.saved import save
from agents.models.threads import one_thread
from planner.catalog.entries import shortfall


def write(
    folder: Path, strategy: str, text: TextSide, head: QualityHead, data: Calibration, tokenizer: Path
) -> dict[str, Any]:
    """Write model.safetensors (fp16), config.json, tokenizer.json and reference.json; the figures are returned.

    A prompt outside the grammar is taken for the average of the prompts taught.
    """
    taught = ~data.held_out()
    config = {
        "strategy": strategy,
        "levels": list(data.levels),  # the fastest first
        **text.encoder.config,
        "average": np.nanmean(data.quality[taught], 0).round(4).tolist(),
    }
    save(folder, config, {"tower": text.encoder.tower, "reader": text.reader, "head": head})
    copy_tokenizer(tokenizer, folder)
    predictor = Predictor.load(folder)
    scores = [shortfall(each, predictor.levels) for each in predictor.quality(reference_prompts(STANDARD))]
    write_reference(folder, f"{strategy}-predictor", DESCRIPTION, scores)
    return figures(predictor, data)


def figures(predictor: Predictor, data: Calibration) -> dict[str, Any]:
    """On the prompts held out: of every level, of the pair of the fastest and the best, and of the classes."""
    test = data.held_out()
    prompts = [prompt for prompt, keep in zip(data.prompts, test, strict=True) if keep]
    quality, said = data.quality[test], predictor.predict(prompts)
    levels = {}
    for column, level in enumerate(data.levels):
        known = ~np.isnan(quality[:, column])
        levels[level] = judged_figures(said.quality[known, column], quality[known, column] == 1)
    found: dict[str, Any] = {"held_out": levels, "ms": round(milliseconds(predictor, prompts[:200]), 2)}
    every = ~np.isnan(quality).any(1)
    if every.any():
        found["classes"] = _classes(quality[every], said.quality[every])
        light, heavy = (data.levels.index(level) for level in data.pair())
        hardness = said.quality.max(1) - said.quality[:, light]
        of_pair = merits(hardness[every], quality[every, light], quality[every, heavy])
        found["pair"] = {"light": data.levels[light], "heavy": data.levels[heavy], **of_pair}
    return found


def _classes(quality: np.ndarray, said: np.ndarray) -> dict[str, Any]:
    """Against the best choice on one image of each prompt, which is itself noisy; levels are the fastest first."""
    rank = np.arange(quality.shape[1], dtype=float)
    best, predicted = best_choice(quality.T, rank), best_choice(said.T, rank)
    lost = regret(quality.T, rank, predicted)
    shares = np.bincount(predicted, minlength=len(rank)) / len(predicted)
    return {
        "prompts": len(best),
        "confusion": confusion(best, predicted, len(rank)).tolist(),
        "accuracy": round(float((best == predicted).mean()), 4),
        "majority": round(float(np.bincount(best).max() / len(best)), 4),
        "quality": round(lost.quality, 4),
        "quality_of_best_choice": round(lost.best_quality, 4),
        "quality_of_random_assignment": round(float(quality.mean(0) @ shares), 4),  # of the same mix of classes
    }


def milliseconds(predictor: Predictor, prompts: list[str]) -> float:
    """Median CPU time in ms for one prompt, with one thread for torch."""
    took = []
    with one_thread():
        for prompt in prompts:
            began = time.thread_time()
            predictor.quality([prompt])
            took.append(1000 * (time.thread_time() - began))
    return statistics.median(took)
