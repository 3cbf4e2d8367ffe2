"""Rebuild `planner/hardness_reference.json`: `python -m agents.hardness_reference --prompts FILE --count N`.

Half of the reference are the first N prompts of FILE (one a line), half N captions of the tiny world. Only figures are
stored, never prompt text.
"""

import argparse
import pathlib

import numpy as np

import planner.hardness
from agents.classify import RuleClassifier
from agents.features import FeatureExtractor
from agents.models import world
from planner.hardness import build_reference
from schemas.errors import PochadeError

CAPTION_SEED = 20261121


def reference_prompts(prompts: pathlib.Path, count: int) -> list[str]:
    """`count` lines of the file and as many captions. Raises: PochadeError if the file has too few."""
    lines = [line.strip() for line in prompts.read_text(encoding="utf-8").splitlines() if line.strip()][:count]
    if len(lines) < count:
        raise PochadeError(f"{prompts} has {len(lines)} prompts, {count} were asked for: lower --count")
    rng = np.random.default_rng(CAPTION_SEED)
    return lines + [world.sample(rng).caption for _ in range(count)]


def main() -> None:
    """Write the reference beside `planner/hardness.py`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=pathlib.Path, required=True, help="one prompt a line (DiffusionDB)")
    parser.add_argument("--count", type=int, default=2000, help="prompts from the file, and as many captions")
    arguments = parser.parse_args()
    prompts = reference_prompts(arguments.prompts, arguments.count)
    extractor = FeatureExtractor()
    reference = build_reference(
        RuleClassifier.name,
        f"{arguments.count} captions of the tiny world (seed {CAPTION_SEED}) and the first {arguments.count} prompts "
        f"of {arguments.prompts.name}",
        (extractor.extract(prompt) for prompt in prompts),
    )
    target = pathlib.Path(planner.hardness.__file__).with_name("hardness_reference.json")
    target.write_text(reference.render())
    print(f"{target}: {reference.n} prompts, median score {reference.quantiles[50]:.3f}")


if __name__ == "__main__":
    main()
