"""A prompt's hardness by HADIS's rules, against the shipped reference."""

import importlib.resources

from agents.features import FeatureExtractor
from planner.hardness import PromptFeatures, Reference, hardness, raw_score


def shipped_reference() -> Reference:
    """`planner/hardness_reference.json`; planner itself reads no files."""
    return Reference.parse(importlib.resources.files("planner").joinpath("hardness_reference.json").read_text())


class RuleClassifier:
    """Source: HADIS 3.3 (rule-based router). One thread at a time."""

    name = "hadis-rules/1"  # raise when features, normalisation or reference change what a prompt scores

    def __init__(self, extractor: FeatureExtractor, reference: Reference) -> None:
        self._extractor = extractor
        self._reference = reference

    @classmethod
    def load(cls) -> "RuleClassifier":
        """With the shipped reference; takes seconds."""
        return cls(FeatureExtractor(), shipped_reference())

    def classify(self, prompt: str) -> tuple[float, PromptFeatures]:
        """Hardness in [0, 1] and what it was judged on; never raises, whatever the text."""
        features = self._extractor.extract(prompt)
        return hardness(raw_score(features, self._reference.weights), self._reference), features
