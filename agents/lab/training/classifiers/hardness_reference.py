"""Rebuild `planner/serving/hardness_reference.json`, the one of catalogs without a trained classifier.

    python -m agents.lab.training.classifiers.hardness_reference

A reference is made of prompts that `reference_prompts` draws again: two thirds are captions of the tiny world, the rest
captions amid everyday prompt words and sentences of such words alone. Those of trained classifiers and rules are of the
standard stream, so that its prompts fill all of 0..1; that of catalogs without a trained classifier is of the easy one,
whose prompts are as short as people's. Only figures are stored.
"""

import pathlib
from typing import Final

import numpy as np

import planner.serving.hardness
from agents.classifier.features import FeatureExtractor
from agents.lab.world import free_form, scenes
from agents.lab.world.stream import EASY, STANDARD, Stream
from planner.serving.hardness import DEFAULT_WEIGHTS, RULES, Reference, build_reference, raw_score

SEED: Final = 20261121
COUNT: Final = 3000
DESCRIPTION: Final = f"{COUNT} prompts of seed {SEED}: captions, one in six amid free words, and one in six free words"


def reference_prompts(stream: Stream) -> list[str]:
    """Return the reference prompts; they depend on the world's words and the stream alone."""
    return sample_prompts(stream, SEED, COUNT)


def sample_prompts(stream: Stream, seed: int, count: int) -> list[str]:
    """Sample prompts of the kinds of the reference: captions, one in six amid free words, one in six free words."""
    rng = np.random.default_rng(seed)
    return [_prompt(rng, number % 6, stream) for number in range(count)]


def _prompt(rng: np.random.Generator, kind: int, stream: Stream) -> str:
    if kind == 0:
        return free_form.sentence(rng)
    caption = scenes.sample(rng, stream=stream).caption
    return free_form.mixed(rng, caption) if kind == 1 else caption


def rules_reference(
    extractor: FeatureExtractor, weights: dict[str, float], version: str = RULES, stream: Stream = STANDARD
) -> Reference:
    """The rules' reference with these weights; takes seconds."""
    features = [extractor.extract(prompt) for prompt in reference_prompts(stream)]
    return build_reference(version, DESCRIPTION, [raw_score(each, weights) for each in features], weights)


def main() -> None:
    """Write the reference beside `planner/serving/hardness.py`."""
    reference = rules_reference(FeatureExtractor(), DEFAULT_WEIGHTS, stream=EASY)
    target = pathlib.Path(planner.serving.hardness.__file__).with_name("hardness_reference.json")
    target.write_text(reference.render())
    print(f"{target}: {reference.n} prompts, median score {reference.quantiles[50]:.3f}")


if __name__ == "__main__":
    main()
