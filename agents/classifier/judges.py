"""Judges a prompt before anything is generated: by HADIS's rules, or by predictors of every level's quality."""

import importlib.resources
import json
import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from agents.classifier.features import FeatureExtractor
from agents.classifier.predictors import QualityPredictor, open_predictor
from agents.classifier.renewing import RenewedClassifier
from planner.catalog.entries import Classifier as ClassifierEntry
from planner.catalog.entries import fastest_good, shortfall
from planner.catalog.model import Catalog
from planner.serving.hardness import RULES, InvalidReference, Reference, hardness, raw_score
from schemas.errors import PochadeError
from streams.shipped import INFRA

REFERENCE: Final = "reference.json"  # in a classifier's folder


class Judgement(NamedTuple):
    """The hardness and classes that are predicted from a prompt alone."""

    hardness: float  # [0, 1], quantile on the reference prompts
    classes: dict[str, str]  # strategy -> level believed optimal; a strategy that is not here goes by hardness
    evidence: object  # what it was judged on


class PromptJudge(Protocol):
    """Judges one prompt at a time; accepts any text without raising."""

    @property
    def name(self) -> str:
        """With its version."""

    def classify(self, prompt: str) -> Judgement: ...


class RuleClassifier:
    """Hardness by a weighted sum of counts. Source: HADIS 3.3 (rule-based router)."""

    def __init__(self, extractor: FeatureExtractor, reference: Reference) -> None:
        """Raises InvalidReference for the reference of other rules or another score."""
        if not reference.version.startswith(RULES) or not reference.weights:
            raise InvalidReference(f"the reference is of {reference.version!r}, the rules are {RULES!r}: rebuild it")
        self.name = reference.version
        self._extractor = extractor
        self._reference = reference

    @classmethod
    def load(cls, reference: Reference | None = None) -> "RuleClassifier":
        """Load the rules, with the shipped reference if none is given."""
        return cls(FeatureExtractor(), reference or shipped_reference())

    def classify(self, prompt: str) -> Judgement:
        """The evidence are the prompt's `PromptFeatures`."""
        features = self._extractor.extract(prompt)
        score = raw_score(features, self._reference.weights)
        return Judgement(hardness(score, self._reference), {}, features)


class LearnedClassifier:
    """Class and hardness by the predicted quality of every level. Source: ARGUS 4.1 (one a strategy)."""

    def __init__(self, predictor: QualityPredictor, reference: Reference, entry: ClassifierEntry) -> None:
        """Raises PochadeError unless the predictor knows the entry's levels."""
        unknown = [level for level in entry.levels if level not in predictor.levels]
        if unknown:
            known = ", ".join(predictor.levels)
            raise PochadeError(f"classifier {entry.name!r} was not taught {', '.join(unknown)}: it knows {known}")
        self.name = reference.version
        self._predictor = predictor
        self._reference = reference
        self._entry = entry

    @classmethod
    def load(cls, folder: pathlib.Path, entry: ClassifierEntry) -> "LearnedClassifier":
        """Load a folder of config.json, model.safetensors and reference.json, and what else its kind has there."""
        return cls(open_predictor(folder), read_reference(folder / REFERENCE), entry)

    def classify(self, prompt: str) -> Judgement:
        """The evidence is the predicted quality of each level, {level: [0, 1]}."""
        (quality,) = self._predictor.quality([prompt])
        score = shortfall(quality, self._predictor.levels)  # of all it was taught, as in the reference
        classes = {self._entry.strategy: fastest_good(quality, self._entry.levels)}
        return Judgement(hardness(score, self._reference), classes, quality)


class JointClassifier:
    """Joins several classifiers: hardness by the first, each strategy's class by the first that predicts it."""

    def __init__(self, judges: Sequence[PromptJudge]) -> None:
        self._judges = judges

    @property
    def name(self) -> str:
        """Theirs; one may be renewed."""
        return "+".join(judge.name for judge in self._judges)

    def classify(self, prompt: str) -> Judgement:
        """The evidence is the list of theirs."""
        judged = [judge.classify(prompt) for judge in self._judges]
        classes = {strategy: level for each in reversed(judged) for strategy, level in each.classes.items()}
        return Judgement(judged[0].hardness, classes, [each.evidence for each in judged])


def open_judge(catalog: Catalog) -> PromptJudge:
    """Return the catalog's classifiers; without any, the rules with the shipped reference.

    Raises PochadeError if a folder or one of its files is missing or invalid.
    """
    judges = [_open(entry) for entry in catalog.classifiers.values()]
    if len(judges) > 1:
        return JointClassifier(judges)
    return judges[0] if judges else RuleClassifier.load()


def shipped_reference() -> Reference:
    """Read `planner/serving/hardness_reference.json` for `planner`, which reads no files."""
    return Reference.parse(importlib.resources.files("planner.serving").joinpath("hardness_reference.json").read_text())


def read_reference(path: pathlib.Path) -> Reference:
    """The reference in a file. Raises InvalidReference, OSError."""
    return Reference.parse(path.read_text())


def _open(entry: ClassifierEntry) -> PromptJudge:
    if not entry.folder:
        return RuleClassifier.load()
    folder = INFRA / entry.folder
    try:
        if entry.engine == "rules":
            return RuleClassifier.load(read_reference(folder / REFERENCE))
        return RenewedClassifier(partial(LearnedClassifier.load, folder, entry), folder / REFERENCE)
    except (OSError, json.JSONDecodeError) as error:
        raise PochadeError(f"classifier {entry.name!r}: {error}: train it or correct the catalog") from error
