"""A made-up evaluation, in which light fails on hard prompts and every ranker sees it through noise."""

from dataclasses import replace
from typing import Any

import numpy as np

from agents.lab.evaluation.observations import Classifier, Evaluation, Judged, Level, Pair
from agents.lab.evaluation.statistics.hybrid import choose_hybrid
from agents.lab.world.facts import KINDS
from agents.learning.bounds import keep_threshold
from agents.profiling.statistics.sweeps import Sweep

FACTS = 6
STEPS = np.array([0, 5, 10, 20, 30, 40])


def a_level(rng: np.random.Generator, wrong: np.ndarray, cost_ms: float, shift: float = 0.0) -> Level:
    """A level that gets each of six facts wrong with probability `wrong` [n]."""
    right = (rng.random((FACTS, len(wrong))) >= wrong).sum(0)
    features = rng.normal(shift, 1, (len(wrong), 8))
    missed = np.zeros((len(wrong), len(KINDS)), bool)
    missed[:, 0] = right < FACTS  # every fact of this world is a count
    quality = (right == FACTS).astype(float)
    return Level(quality=quality, facts=right / FACTS, cost_ms=cost_ms, features=features, missed=missed)


def a_pair(
    rng: np.random.Generator, light: str, heavy: str, levels: dict[str, Level], hardness: np.ndarray, half: int
) -> Pair:
    """Rankers noisy in different ways; the hybrid and threshold are chosen on the rows from `half` on."""
    noise = {name: rng.normal(0, scale, len(hardness)) for name, scale in (("mlp", 0.2), ("rule", 0.5))}
    benefits = {name: -hardness + noise[name] for name in noise}
    judged = {
        "facts": np.clip(levels[light].facts - 0.3 + rng.normal(0, 0.15, len(hardness)), 0, 1),
        "cosine": levels[light].facts + rng.normal(0, 0.9, len(hardness)),
    }
    quality = levels[light].quality[half:], levels[heavy].quality[half:]
    hybrid = choose_hybrid(
        {name: values[half:] for name, values in benefits.items()},
        {name: values[half:] for name, values in judged.items()},
        *quality,
    )
    found = keep_threshold(judged["facts"][half:], levels[light].is_right[half:], alpha=0.3)
    return Pair(
        light=light,
        heavy=heavy,
        benefits={name: values[:half] for name, values in benefits.items()},
        discriminators={
            "facts": Judged(light=judged["facts"][:half], heavy=np.full(half, 0.9)),
            "cosine": Judged(light=judged["cosine"][:half]),
        },
        hybrid=hybrid,
        thresholds={"facts": found} if found else {},
    )


def a_sweep(rng: np.random.Generator, heavy: Level, rows: np.ndarray, loss: float) -> Sweep:
    """Facts are lost in proportion to `loss` beyond K = 20."""
    lost = np.maximum(STEPS - 20, 0) * loss
    facts = np.clip(heavy.facts[rows] - rng.binomial(1, lost[:, None], (len(STEPS), len(rows))) / FACTS, 0, 1)
    return Sweep(
        rows=rows,
        k=STEPS,
        cost_share=(50 - STEPS) / 50,
        quality=(facts >= 1 - 1e-9).astype(float),
        facts=facts,
        blank_quality=heavy.quality[rows],
        blank_facts=heavy.facts[rows],
    )


def an_evaluation(count: int = 400, seed: int = 3, **changes: Any) -> Evaluation:
    """`count` prompts to report on; as many again, unseen in the result, served to choose the hybrid."""
    rng = np.random.default_rng(seed)
    hardness = rng.random(2 * count)
    every = {
        "tiny": a_level(rng, 0.02 + 0.35 * hardness**2, 11.0, 0.5),
        "small": a_level(rng, 0.01 + 0.08 * hardness, 60.0, 0.2),
        "large": a_level(rng, 0.002 + 0.01 * hardness, 400.0),
        "wasteful": a_level(rng, 0.02 + 0.1 * hardness, 300.0, 0.3),
    }
    pairs = {
        "main": a_pair(rng, "tiny", "large", every, hardness, count),
        "strong light": a_pair(rng, "small", "large", every, hardness, count),
    }
    levels = {
        name: Level(
            quality=level.quality[:count],
            facts=level.facts[:count],
            cost_ms=level.cost_ms,
            features=None if level.features is None else level.features[:count],
            missed=None if level.missed is None else level.missed[:count],
        )
        for name, level in every.items()
    }
    rows = np.arange(0, count, 2)
    values: dict[str, Any] = {
        "prompts": tuple(f"prompt {at}" for at in range(count)),
        "seed": 77,
        "hardness": hardness[:count],
        "objects": 1 + (hardness[:count] * 5).astype(int),
        "levels": levels,
        "classifiers": {
            "mlp": Classifier(
                ms=1.2,
                levels=("tiny", "small", "large"),
                predicted=np.digitize(hardness[:count] + rng.normal(0, 0.1, count), [0.6, 0.9]),
            ),
            "rule": Classifier(ms=0.1),
        },
        "pairs": pairs,
        "true_features": rng.normal(0, 1, (count, 8)),
        "paint_over": {
            "own noise": a_sweep(rng, levels["large"], rows, 0.01),
            "fresh noise": a_sweep(rng, levels["large"], rows, 0.015),
        },
        "chosen_k": 30,
        "reuse": {"stored latents": a_sweep(rng, levels["large"], rows, 0.04)},
    }
    return Evaluation(**(values | changes))


def with_the_pair_alone(whole: Evaluation) -> Evaluation:
    """The same, with nothing measured beyond the levels and the pairs."""
    levels = {name: replace(level, features=None, missed=None) for name, level in whole.levels.items()}
    return replace(whole, levels=levels, true_features=None, paint_over={}, reuse={}, chosen_k=None)
