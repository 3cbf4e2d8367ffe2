"""How often the intervals of an evaluation contain what a far larger pool of prompts shows.

    pochade evaluate --seed 20261124 --count 20000 --report build/pool
    python -m agents.lab.evaluation.statistics.coverage build/pool tests/agents/lab/evaluation/statistics/pool.npz

The pool is generated once. `coverage` draws samples out of it, as evaluations would draw prompts, and counts for each
figure in how many of them the 95 % interval contains the pool's own value.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agents.lab.evaluation import storage
from agents.lab.evaluation.observations import Classifier, Evaluation, Judged, Level, Pair
from agents.lab.evaluation.statistics.hybrid import Hybrid
from agents.lab.evaluation.statistics.merits import Merits, merits
from agents.profiling.statistics.intervals import Estimate, Resampling, mean, proportion

_RANKERS = ("discriminator", "classifier")


class Pool(NamedTuple):
    """The main pair of levels on n prompts, and its discriminator and classifier."""

    light: np.ndarray  # [n] quality, 0 or 1
    heavy: np.ndarray  # [n] quality, 0 or 1
    light_facts: np.ndarray  # [n] share of the facts that hold
    heavy_facts: np.ndarray  # [n]
    discriminator: np.ndarray  # [n] score of light's image
    classifier: np.ndarray  # [n] predicted benefit of light

    def of(self, rows: np.ndarray) -> "Pool":
        """Some of its prompts, int [m]."""
        return Pool(*(column[rows] for column in self))

    def evaluation(self) -> Evaluation:
        """These prompts as an evaluation of one pair."""
        n = len(self.light)
        levels = {
            "light": Level(quality=self.light, facts=self.light_facts, cost_ms=1.0),
            "heavy": Level(quality=self.heavy, facts=self.heavy_facts, cost_ms=2.0),
        }
        hybrid = Hybrid(
            prompt="classifier", image="discriminator", weight=0.5,
            prompt_scale=np.sort(self.classifier), image_scale=np.sort(self.discriminator),
        )  # fmt: skip
        pair = Pair(
            light="light", heavy="heavy", hybrid=hybrid, benefits={"classifier": self.classifier},
            discriminators={"discriminator": Judged(light=self.discriminator)},
        )  # fmt: skip
        return Evaluation(
            prompts=("",) * n, seed=0, hardness=np.zeros(n), objects=np.zeros(n, int), levels=levels,
            classifiers={"classifier": Classifier(ms=0.0)}, pairs={"light and heavy": pair},
        )  # fmt: skip


def pool_of(evaluation: Evaluation) -> Pool:
    """The main pair of an evaluation, with the rankers of its hybrid."""
    pair = evaluation.main
    light, heavy = evaluation.levels[pair.light], evaluation.levels[pair.heavy]
    return Pool(
        light.quality, heavy.quality, light.facts, heavy.facts,
        pair.discriminators[pair.hybrid.image].light, pair.benefits[pair.hybrid.prompt],
    )  # fmt: skip


def coverage(pool: Pool, count: int, draws: int, how: Resampling) -> Mapping[str, float]:
    """Figure -> share of `draws` samples of `count` prompts whose interval contains the pool's value.

    Samples are drawn without replacement, by `how.seed`; each gets its intervals with another seed.
    """
    rng = np.random.default_rng(how.seed)
    wanted = {name: estimate().value for name, estimate in _figures(pool, Resampling(seed=0, resamples=2))}
    held = dict.fromkeys(wanted, 0)
    for draw in range(draws):
        sample = pool.of(rng.choice(len(pool.light), count, replace=False))
        for name, estimate in _figures(sample, Resampling(seed=how.seed + draw, resamples=how.resamples)):
            found = estimate()
            held[name] += found.low <= wanted[name] <= found.high
    return {name: hits / draws for name, hits in held.items()}


def _figures(pool: Pool, how: Resampling) -> Iterator[tuple[str, Callable[[], Estimate]]]:
    evaluation = pool.evaluation()
    for name, level in evaluation.levels.items():
        yield f"{name}: quality", lambda level=level: proportion(level.is_right)  # type: ignore[misc]
        yield f"{name}: facts", lambda level=level: mean(level.facts, how)  # type: ignore[misc]
    found = merits(evaluation, evaluation.main, how)
    for ranker in _RANKERS:
        for figure in (Merits.auc, Merits.recovery, Merits.gain):
            yield f"{ranker}: {figure.__name__}", lambda figure=figure, ranker=ranker: figure(found, ranker)  # type: ignore[misc]


def save(pool: Pool, file: Path) -> None:
    """Write a pool as `load` reads it; scores with half precision, which changes no rank that matters."""
    with file.open("wb") as opened:
        np.savez_compressed(
            opened, allow_pickle=False,
            **{name: column.astype(np.float16) for name, column in pool._asdict().items()},
        )  # fmt: skip


def load(file: Path) -> Pool:
    """Read what `save` wrote. Raises OSError, KeyError for another file."""
    with np.load(file, allow_pickle=False) as arrays:
        return Pool(*(arrays[name].astype(np.float64) for name in Pool._fields))


if __name__ == "__main__":
    save(pool_of(storage.load(Path(sys.argv[1]))), Path(sys.argv[2]))
