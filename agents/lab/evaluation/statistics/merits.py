"""What every ranker of one pair achieves, all on the same resampled prompts, so that any two can be subtracted."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from agents.lab.evaluation.observations import HYBRID, ORACLE, RANDOM, Evaluation, Pair
from agents.lab.evaluation.statistics.intervals import Estimate, Resampled, Resampling, resampled
from agents.lab.evaluation.statistics.ranking import auc, oracle_quality_at, quality_at, random_quality_at, recovered

SHARES = np.linspace(0, 1, 21)  # of the pictures painted by heavy
HALF = 10  # the row of 0.5
_AUC, _RECOVERY, _GAIN, _CURVE = 0, 1, 2, 3  # rows of a ranker's figures; the curve is the rest
_ROWS = _CURVE + len(SHARES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merits:
    """The figures of all rankers of a pair."""

    names: tuple[str, ...]
    drawn: Resampled  # [names * _ROWS]

    def _row(self, ranker: str, row: int) -> int:
        return self.names.index(ranker) * _ROWS + row

    def auc(self, ranker: str) -> Estimate:
        """Of telling where light is worse than heavy."""
        return self.drawn.estimate(self._row(ranker, _AUC))

    def recovery(self, ranker: str) -> Estimate:
        """(quality - random) / (oracle - random) at half heavy."""
        return self.drawn.estimate(self._row(ranker, _RECOVERY))

    def gain(self, ranker: str) -> Estimate:
        """Quality above random at half heavy, so at equal cost."""
        return self.drawn.estimate(self._row(ranker, _GAIN))

    def curve(self, ranker: str) -> list[Estimate]:
        """Quality at each of SHARES."""
        return [self.drawn.estimate(self._row(ranker, _CURVE + at)) for at in range(len(SHARES))]

    def recovery_above(self, ranker: str, other: str) -> Estimate:
        """How much more one recovers than the other, paired."""
        return self.drawn.difference(self._row(ranker, _RECOVERY), self._row(other, _RECOVERY))


def rankers(pair: Pair) -> dict[str, np.ndarray]:
    """Name -> scores [n]: the classifiers, the discriminators, and the hybrid by what was chosen before."""
    scores = {**pair.benefits, **{name: judged.light for name, judged in pair.discriminators.items()}}
    image = pair.discriminators[pair.hybrid.image].light
    scores[HYBRID] = pair.hybrid.scores(pair.benefits[pair.hybrid.prompt], image)
    return scores


def merits(evaluation: Evaluation, pair: Pair, how: Resampling, *, by_facts: bool = False) -> Merits:
    """Of the pair's rankers, the oracle and random; nothing here chooses among them.

    `by_facts`: a picture is worth the share of its facts that hold, instead of 1 where all do and 0 elsewhere.
    """
    light, heavy = (
        level.facts if by_facts else level.quality
        for level in (evaluation.levels[pair.light], evaluation.levels[pair.heavy])
    )
    scores: Mapping[str, np.ndarray] = {**rankers(pair), ORACLE: light - heavy}
    table = np.stack(list(scores.values()))

    def figures(rows: np.ndarray) -> np.ndarray:
        on_light, on_heavy = light[rows], heavy[rows]
        chance, best = random_quality_at(on_light, on_heavy, SHARES), oracle_quality_at(on_light, on_heavy, SHARES)
        parts = [_figures(line[rows], on_light, on_heavy, chance, best) for line in table]
        return np.concatenate([*parts, [0.5, 0.0, 0.0], chance])

    worse = int((light < heavy).sum())
    telling = min(worse, len(light) - worse)
    return Merits(names=(*scores, RANDOM), drawn=resampled(figures, len(light), how, telling))


def _figures(
    scores: np.ndarray, light: np.ndarray, heavy: np.ndarray, chance: np.ndarray, best: np.ndarray
) -> np.ndarray:
    curve = quality_at(scores, light, heavy, SHARES)
    recovery = recovered(curve[HALF], chance[HALF], best[HALF])
    return np.concatenate([[auc(scores, light >= heavy), recovery, curve[HALF] - chance[HALF]], curve])
