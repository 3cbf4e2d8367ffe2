"""The hardness of a prompt: the quantile, on fixed reference prompts, of a raw score, so that harder traffic raises it.

The raw score is a classifier's: a learned one's `shortfall`, or HADIS's rules, a weighted sum of eight counts of the
prompt's words. Source of the rules: HADIS 3.3, Table 1. We differ: the paper gives neither normalisation nor weights;
ours saturate, and the weights stand in the reference.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Final

import numpy as np

from schemas.errors import PochadeError

QUANTILES: Final = 101  # 0 %, 1 % ... 100 % of the reference scores
RULES: Final = "hadis-rules/3"  # raise when features or normalisation change what a prompt scores


class InvalidReference(PochadeError):
    """A hardness reference that is not one.

    Rebuild it with `python -m agents.lab.training.classifiers.hardness_reference`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFeatures:
    """HADIS's eight rule features, all counts >= 0 (`agents/classifier/features.py` says what counts)."""

    prompt_length: int  # words
    token_rarity: int  # words rarer than 1 in 100,000
    num_objects: int  # things to generate; "two cats" are two
    abstractness: int  # words one cannot point at
    attribute_density: int  # modifiers
    spatial_relations: int
    action_verbs: int
    named_entities: int


FEATURES: Final = tuple(field.name for field in fields(PromptFeatures))

# The count at which a feature is half of what it can be: about its upper median over captions and user prompts.
HALF: Final[dict[str, float]] = {
    "prompt_length": 16,
    "token_rarity": 3,
    "num_objects": 4,
    "abstractness": 1,
    "attribute_density": 4,
    "spatial_relations": 2,
    "action_verbs": 1,
    "named_entities": 2,
}

# By hand, for catalogs without a trained classifier. AUC of "light is worse" on 370 held-out captions of the world:
# these .70, all alike .70, searched on 1,135 others .69, 30 random ones .69 on average, the number of objects .66, the
# learned predictor .94: counting words does not show which things a level fails at.
DEFAULT_WEIGHTS: Final[dict[str, float]] = dict.fromkeys(FEATURES, 1.0) | {"num_objects": 4.0, "attribute_density": 2.0}


def normalised(features: PromptFeatures) -> dict[str, float]:
    """Return each count as count / (count + half): in [0, 1), strictly rising, without a cap."""
    return {name: count / (count + HALF[name]) for name, count in asdict(features).items()}


def raw_score(features: PromptFeatures, weights: Mapping[str, float] = DEFAULT_WEIGHTS) -> float:
    """Weighted mean of the normalised features, in [0, 1). Source: HADIS 3.3 (weighted sum)."""
    return sum(weights[name] * value for name, value in normalised(features).items()) / sum(weights.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The reference of hardness: figures of the scores of reproducible prompts."""

    version: str  # of the score, the prompts and what else decides it; requests are stamped with it
    description: str
    n: int  # prompts
    weights: dict[str, float]  # of the rules, feature -> weight >= 0; empty for other scores
    quantiles: tuple[float, ...]  # QUANTILES raw scores, rising

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """The reference in a JSON text. Raises: InvalidReference."""
        try:
            value = json.loads(text)
            reference = cls(
                version=str(value["version"]),
                description=str(value["description"]),
                n=int(value["n"]),
                weights={str(name): float(weight) for name, weight in value["weights"].items()},
                quantiles=tuple(float(score) for score in value["quantiles"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise InvalidReference(f"not a hardness reference: {error!r}; rebuild it") from error
        reference._check()
        return reference

    def _check(self) -> None:
        if len(self.quantiles) != QUANTILES:
            raise InvalidReference(f"{self.version}: needs {QUANTILES} quantiles, got {len(self.quantiles)}")
        if not all(a <= b for a, b in pairwise(self.quantiles)):  # also false for NaN
            raise InvalidReference(f"{self.version}: quantiles must rise")
        if not self.weights:
            return
        if set(self.weights) != set(FEATURES):
            raise InvalidReference(f"{self.version}: weights must be of {', '.join(FEATURES)}; got {self.weights}")
        if min(self.weights.values()) < 0 or not 0 < sum(self.weights.values()) < float("inf"):
            raise InvalidReference(f"{self.version}: weights must be >= 0 and not all 0: got {self.weights}")

    def render(self) -> str:
        """The JSON text that `parse` reads."""
        return json.dumps(asdict(self), indent=1) + "\n"


def build_reference(
    version: str, description: str, scores: Sequence[float], weights: Mapping[str, float] | None = None
) -> Reference:
    """The reference of these prompts' raw scores; `weights` where the rules made them."""
    if not len(scores):
        raise InvalidReference(f"{version}: no prompts to build a reference from")
    quantiles = np.quantile(scores, np.linspace(0, 1, QUANTILES))
    return Reference(
        version=version,
        description=description,
        n=len(scores),
        weights=dict(weights or {}),
        quantiles=tuple(float(score) for score in quantiles),
    )


def hardness(score: float, reference: Reference) -> float:
    """The quantile of a raw score on the reference, in [0, 1]; rising in the score, 0 below all, 1 above all.

    quantiles   ... q[i-1] < q[i] = ... = q[j-1] < q[j] ...
    score == q[i]: the middle of i .. j-1 (mid-rank); q[i-1] < score < q[i]: linear between i-1 and i.
    """
    quantiles, last = reference.quantiles, QUANTILES - 1
    first, after = bisect_left(quantiles, score), bisect_right(quantiles, score)
    if first < after:
        return (first + after - 1) / 2 / last
    if first == 0:
        return 0.0
    if first > last:
        return 1.0
    below, above = quantiles[first - 1], quantiles[first]
    return (first - 1 + (score - below) / (above - below)) / last
