"""The observations of an evaluation: plain arrays, from which all figures are computed.

n prompts throughout; a prompt has the same row everywhere. Scores and benefits are higher where light is good enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from agents.lab.evaluation.checks import check_array, check_known, check_share
from agents.lab.evaluation.statistics.hybrid import Hybrid
from agents.lab.world.facts import KINDS
from agents.learning.bounds import Threshold
from agents.profiling.statistics.sweeps import Sweep
from schemas.errors import PochadeError

RESERVED = ORACLE, RANDOM, HYBRID = "oracle", "random", "hybrid"  # rankers that every pair has


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """One level's images of all prompts."""

    quality: np.ndarray  # [n] 1 where all facts that the prompt states hold, else 0
    facts: np.ndarray  # [n] share of those facts that hold, 0..1
    cost_ms: float  # of one image at batch size 1
    features: np.ndarray | None = None  # [n, d] the scorer's, for FID
    missed: np.ndarray | None = None  # bool [n, kinds of world.facts.KINDS]

    @property
    def is_right(self) -> np.ndarray:
        """bool [n]: whether all facts hold."""
        return np.asarray(self.quality == 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classifier:
    """A ranker of prompts. What it thinks of a pair's light level is with the pair."""

    ms: float  # a prompt, on one core
    levels: tuple[str, ...] = ()  # its classes; empty for a rule that only ranks
    predicted: np.ndarray | None = None  # [n] int, rows of `levels`


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """A discriminator's scores."""

    light: np.ndarray  # [n] of the light level's images
    heavy: np.ndarray | None = None  # [n] of the heavy level's


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """A cascade of two levels, and the scores of each ranker."""

    light: str
    heavy: str
    discriminators: Mapping[str, Judged]
    benefits: Mapping[str, np.ndarray]  # classifier -> [n] predicted benefit of light
    hybrid: Hybrid  # chosen on other prompts
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)  # discriminator -> as found on other prompts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """Everything generated and scored. Raises PochadeError where shapes, ranges or names do not fit together."""

    prompts: tuple[str, ...]
    seed: int
    hardness: np.ndarray  # [n] 0..1
    objects: np.ndarray  # [n] int, how many the prompt asks for
    levels: Mapping[str, Level]
    classifiers: Mapping[str, Classifier]
    pairs: Mapping[str, Pair]  # the first is the main pair
    true_features: np.ndarray | None = None  # [about n, d] of true renderings of these prompts
    paint_over: Mapping[str, Sweep] = field(
        default_factory=dict
    )  # variant -> sweep, over the main pair; as shipped first
    chosen_k: int | None = None  # for refinement, chosen on other prompts
    reuse: Mapping[str, Sweep] = field(default_factory=dict)  # variant -> sweep over the nearest stored prompt
    stream: str = "standard"  # a key of world.stream.STREAMS

    def __post_init__(self) -> None:
        """Refuse what would only fail, or mislead, in a figure."""
        n = len(self.prompts)
        check_share("hardness", self.hardness, (n,))
        check_array("objects", self.objects, (n,))
        if n < 4 or not self.pairs:
            raise PochadeError(f"an evaluation needs four prompts or more and a pair: got {n} and {len(self.pairs)}")
        for name, level in self.levels.items():
            check_share(f"quality of {name}", level.quality, (n,))
            check_share(f"facts of {name}", level.facts, (n,))
            if level.features is not None:
                check_array(f"features of {name}", level.features, (n, None))
            if level.missed is not None:
                check_array(f"missed of {name}", level.missed, (n, len(KINDS)), kind="b")
        for name, classifier in self.classifiers.items():
            self._check_classifier(name, classifier)
        for name, pair in self.pairs.items():
            self._check_pair(name, pair)
        for name, sweep in (*self.paint_over.items(), *self.reuse.items()):
            self._check_sweep(name, sweep)
        if self.chosen_k is not None and (not self.paint_over or self.chosen_k not in self.shipped_refinement.k):
            raise PochadeError(f"chosen_k must be one of the swept steps: got {self.chosen_k}")

    @property
    def main(self) -> Pair:
        """The pair that the headline is about."""
        return next(iter(self.pairs.values()))

    @property
    def shipped_refinement(self) -> Sweep:
        """The sweep of the refinement that cascades use."""
        return next(iter(self.paint_over.values()))

    def _check_classifier(self, name: str, classifier: Classifier) -> None:
        for level in classifier.levels:
            check_known("level", level, self.levels)
        if classifier.predicted is not None:
            check_array(f"classes of {name}", classifier.predicted, (len(self.prompts),), kind="i")
            if not ((classifier.predicted >= 0) & (classifier.predicted < len(classifier.levels))).all():
                raise PochadeError(f"classes of {name} must be rows of its {len(classifier.levels)} levels")

    def _check_pair(self, name: str, pair: Pair) -> None:
        shape = (len(self.prompts),)
        taken = sorted({*pair.benefits, *RESERVED} & {*pair.discriminators} | {*pair.benefits} & {*RESERVED})
        if taken:
            raise PochadeError(f"rankers of {name} need names of their own, and not {', '.join(RESERVED)}: got {taken}")
        for level in (pair.light, pair.heavy):
            check_known("level", level, self.levels)
        for ranker, benefit in pair.benefits.items():
            check_known("classifier", ranker, self.classifiers)
            check_array(f"benefit by {ranker} in {name}", benefit, shape)
        for ranker, judged in pair.discriminators.items():
            check_array(f"scores by {ranker} in {name}", judged.light, shape)
            if judged.heavy is not None:
                check_array(f"scores of heavy by {ranker} in {name}", judged.heavy, shape)
        check_known("classifier", pair.hybrid.prompt, pair.benefits)
        check_known("discriminator", pair.hybrid.image, pair.discriminators)
        for ranker in pair.thresholds:
            check_known("discriminator", ranker, pair.discriminators)

    def _check_sweep(self, name: str, sweep: Sweep) -> None:
        steps, prompts = len(sweep.k), len(sweep.rows)
        check_array(f"steps of {name}", sweep.k, (steps,), kind="i")
        check_array(f"cost share of {name}", sweep.cost_share, (steps,))
        check_share(f"quality of {name}", sweep.quality, (steps, prompts))
        check_share(f"facts of {name}", sweep.facts, (steps, prompts))
        check_share(f"blank quality of {name}", sweep.blank_quality, (prompts,))
        check_share(f"blank facts of {name}", sweep.blank_facts, (prompts,))
        if (np.diff(sweep.k) <= 0).any():
            raise PochadeError(f"steps of {name} must rise: got {sweep.k.tolist()}")
