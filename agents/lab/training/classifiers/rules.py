"""Search HADIS's rule weights on the calibration set's training prompts; report them on the others."""

import hashlib
import json
from pathlib import Path

import numpy as np

from agents.classifier.features import FeatureExtractor
from agents.classifier.judges import REFERENCE
from agents.lab.training.classifiers import rule_search
from agents.lab.training.classifiers.calibration import Calibration
from agents.lab.training.classifiers.hardness_reference import rules_reference
from agents.lab.world import captions
from agents.models.predictor import Predictor
from planner.catalog.entries import shortfall
from planner.serving.hardness import RULES, hardness


def train(work: Path, models: Path, seed: int, calibration: Calibration) -> None:
    """Write <models>/rules/reference.json, weights and quantiles, and the report to <work>/rules.json.

    Only prompts with images of both levels of the main pair count. If <models>/classifiers/models is trained, the
        report holds the learned one beside it.
    """
    pair = calibration.pair()
    known = calibration.of(pair).complete()
    light, heavy = known.quality.T
    extractor = FeatureExtractor()
    normal = rule_search.matrix([extractor.extract(prompt) for prompt in known.prompts])
    test = known.held_out()
    taught = ~test
    weights = rule_search.search(normal[taught], light[taught], heavy[taught], seed)
    folder = models / "rules"
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(json.dumps(weights, sort_keys=True).encode()).hexdigest()[:8]
    reference = rules_reference(extractor, weights, f"{RULES}-{digest}")
    (folder / REFERENCE).write_text(reference.render())
    hard = np.array([hardness(float(score), reference) for score in normal[taught] @ np.array([*weights.values()])])
    cut = rule_search.class_cut(hard, *known.quality[taught].T)
    parsed = np.array([captions.parse(prompt) is not None for prompt in known.prompts])
    judged = test & parsed  # objects are known of plain captions only
    figures = rule_search.report(
        normal[judged], weights, light[judged], heavy[judged],
        _others([prompt for prompt, keep in zip(known.prompts, judged, strict=True) if keep], models), seed,
    )  # fmt: skip
    about = {"seed": seed, "pair": pair, "taught": int(taught.sum()), "class_cut": cut}
    (work / "rules.json").write_text(json.dumps(about | figures, indent=2) + "\n")


def _others(prompts: list[str], models: Path) -> dict[str, np.ndarray]:
    scenes = [captions.parse(prompt) for prompt in prompts]
    scores = {"number_of_objects": np.array([len(scene.objects) if scene else 0 for scene in scenes], float)}
    learned = models / "classifiers" / "models"
    if learned.exists():
        predictor = Predictor.load(learned)
        scores["learned"] = np.array([shortfall(each, predictor.levels) for each in predictor.quality(prompts)])
    return scores
