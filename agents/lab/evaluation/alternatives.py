"""Each level at other steps and guidance: whether the same weights are as good for clearly less time.

    python -m agents.lab.evaluation.alternatives SEED COUNT FOLDER

writes FOLDER/alternatives.json and FOLDER/alternatives.png. Finished parts are kept in FOLDER/.cache: repeat the
command to go on after an interruption. `pochade evaluate` with this seed and folder uses the shipped levels' images.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from agents.lab.evaluation.generation.samples import sheet
from agents.lab.evaluation.generation.scope import fresh
from agents.lab.evaluation.statistics.fid import frechet_distance
from agents.lab.evaluation.statistics.paired import paired_difference
from agents.lab.world import renderer
from agents.lab.world.captions import parse
from agents.models.scorer import Scorer
from agents.profiling.catalog import relocated
from agents.profiling.generation.orders import GeneratedImages, generate_images, opened
from agents.profiling.generation.pool import GenerationPool
from agents.profiling.generation.sweeps import order
from agents.profiling.profiling import clock_of, in_turns, times_of, usual_order
from agents.profiling.seeded_prompts import SeededPrompts
from agents.profiling.statistics.intervals import proportion
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from streams import catalogs
from streams.shipped import MODELS

SETTINGS: Final[Mapping[str, Sequence[tuple[int, float]]]] = {
    "heavy": ((2, 2.0), (3, 2.0), (4, 2.0), (5, 2.0), (8, 2.0)),
    "middle": ((1, 1.25), (2, 1.25), (2, 1.5), (3, 1.25), (4, 1.25)),
    "light": ((1, 1.0), (2, 1.0)),
}
"""Level -> steps and guidance that are compared."""
TIMED: Final = 4  # images of a timed call
TIMING_S: Final = 60.0
RESAMPLES: Final = 100  # of the difference between two Frechet distances
SHOWN: Final = 24  # prompts of the sheet


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alternative:
    """The images of one setting."""

    variant: Variant
    right: np.ndarray  # bool [n]: all stated facts hold
    features: np.ndarray  # [n, d] of the scorer
    sharpness: float


def sharpness(images: np.ndarray) -> float:
    """Mean absolute Laplacian of the grey images uint8 [n, h, w, 3]: what blurring takes away."""
    grey = images.astype(np.float32).mean(-1)
    inner = 4 * grey[:, 1:-1, 1:-1]
    around = grey[:, :-2, 1:-1] + grey[:, 2:, 1:-1] + grey[:, 1:-1, :-2] + grey[:, 1:-1, 2:]
    return float(np.abs(inner - around).mean())


def compared(
    found: Alternative, shipped: Alternative, true: np.ndarray, *, time_share: float, true_sharpness: float
) -> dict[str, Any]:
    """One row: a setting beside the shipped one on the same prompts. `true`: features [n, d] of true renderings."""
    here, there = (frechet_distance(each.features, true) for each in (found, shipped))
    return {
        "level": found.variant.name,
        "steps": found.variant.steps,
        "guidance": found.variant.guidance,
        "shipped": found is shipped,
        "prompts": len(found.right),
        "time_share": time_share,
        **proportion(found.right).fields("quality"),
        **paired_difference(found.right, shipped.right).fields("above_shipped"),
        "fid": here,
        "fid_above_shipped": here - there,
        "fid_difference_standard_error": _spread(found, shipped, true),
        "sharpness_of_true": found.sharpness / true_sharpness,
    }


def _spread(found: Alternative, shipped: Alternative, true: np.ndarray) -> float:
    """Standard error of the difference between two distances, all three sets resampled by the same prompts."""
    rng, n, differences = np.random.default_rng(1), len(true), []
    for _ in range(RESAMPLES):
        rows = rng.integers(n, size=n)
        here, there = (frechet_distance(each.features[rows], true[rows]) for each in (found, shipped))
        differences.append(here - there)
    return float(np.std(differences))


def variants_of(catalog: Catalog) -> dict[str, list[Variant]]:
    """Level -> its variants that are compared, the shipped one first."""
    found: dict[str, list[Variant]] = {}
    for name, settings in SETTINGS.items():
        shipped = catalog.level(name)
        others = [replace(shipped, steps=steps, guidance=guidance) for steps, guidance in settings]
        found[name] = [shipped, *(each for each in others if each != shipped)]
    return found


def time_shares(variants: Sequence[Variant], threads: int = 1) -> list[float]:
    """The time of a call with each setting as a share of the first one's, all timed in turns."""
    calls = {
        str(at): partial(generate_images, opened(variant, threads, None), usual_order(variant, TIMED))
        for at, variant in enumerate(variants)
    }
    taken, clock = in_turns(calls, TIMING_S, f"settings of {variants[0].name}"), clock_of(variants[0], threads)
    return [times_of(taken[name], taken["0"], clock) for name in calls]


def measure(catalog: Catalog, asked: SeededPrompts, pool: GenerationPool, scorer: Scorer, target: Path) -> list[Any]:
    """Generate what is missing, write the sheet to `target`, and return a row for each setting."""
    scenes = [scene for caption in asked.stated if (scene := parse(caption))]
    rng = np.random.default_rng(len(asked.prompts))
    true = np.stack([renderer.render(scene, rng) for scene in scenes])
    true_features, rows, shown = np.asarray(scorer.features(list(true)), float), [], [true[:SHOWN]]
    for name, variants in variants_of(catalog).items():
        found = []
        for variant in variants:
            generated: GeneratedImages = pool.generate({name: order(variant, asked)})[name]
            images = generated.images()
            shown.append(images[:SHOWN])
            features = np.asarray(scorer.features(list(images)), float)
            right = generated.quality == 1
            found.append(Alternative(variant=variant, right=right, features=features, sharpness=sharpness(images)))
        shares = time_shares(variants)
        rows += [
            compared(each, found[0], true_features, time_share=share, true_sharpness=sharpness(true))
            for each, share in zip(found, shares, strict=True)
        ]
    sheet(shown).save(target)
    return rows


def main(seed: int, count: int, folder: Path) -> None:
    """Compare the settings of the shipped catalog's levels on fresh prompts of the standard stream."""
    folder.mkdir(parents=True, exist_ok=True)
    catalog, pool = relocated(catalogs.load("tiny"), MODELS), GenerationPool(folder / ".cache")
    scorer = Scorer.load(MODELS / "scorer")
    rows = measure(catalog, fresh(seed, "test", count), pool, scorer, folder / "alternatives.png")
    (folder / "alternatives.json").write_text(json.dumps({"seed": seed, "settings": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
