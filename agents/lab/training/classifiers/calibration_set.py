"""Generates the images that the calibration set lacks: every level, and the best one begun from similar past images."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from rich.progress import track

from agents.lab.family import CATALOG, folder_of
from agents.lab.training.classifiers import calibration
from agents.lab.training.classifiers.calibration import Calibration
from agents.lab.training.loop import scaled
from agents.lab.world import scenes
from agents.lab.world.stream import EASY, STANDARD
from agents.models.scorer import Scorer
from agents.profiling.generation.orders import GeneratedImages, Order, generate_into, joined
from agents.profiling.generation.sweeps import nearest
from planner.catalog.entries import Variant, run_ms

SEED: Final = 50_000_000  # of the prompts and, plus a prompt's number, of its noise
WORK: Final = 48_000  # denoiser calls a level is given, which decides how many prompts it generates
MIN_PROMPTS, MAX_PROMPTS = 1500, 8000
_EASY_EVERY: Final = 4  # prompts, of which one is of the easy stream and the others are of the standard one
STORED: Final = 500  # of the best level's images: what reuse may begin with
REUSING: Final = 1200  # prompts, at most, that begin with one of them
REUSED: Final = (0.25, 0.5, 0.75)  # of the best level's steps that reuse leaves out
_PART: Final = 250  # images a file, so that an interrupted generation resumes


def complete(work: Path, models: Path, levels: Sequence[str]) -> None:
    """Generate those of `levels` that no file in <work>/calibration has, into LEVEL.npz; then the reuse levels.

    The dearer a level, the fewer prompts it generates; the first prompts are the same for all. Reuse levels need
    <models>/scorer, whose similarity the vector store uses too; without it none is generated.
    """
    folder = work / "calibration"
    known = calibration.read(folder).levels if list(folder.glob("*.npz")) else ()
    variants = {name: _local(CATALOG.level(name), models) for name in levels}
    for name, variant in variants.items():
        if name not in known:
            _write(folder, name, variant, _generated(folder, name, _order(variant)))
    best = max(variants.values(), key=lambda variant: run_ms(variant, 1))
    if best.steps > 1 and (models / "scorer").exists() and not any("~" in name for name in known):
        _generate_reuse(folder, models, best)


def _generate_reuse(folder: Path, models: Path, variant: Variant) -> None:
    """Begin with the image of the most similar of the last STORED prompts, as its cached latent would, with noise."""
    whole = _order(variant)
    stored = len(whole.prompts) - min(scaled(STORED), len(whole.prompts) // 2)
    images = _generated(folder, variant.name, whole).images()[stored:]
    scorer = Scorer.load(models / "scorer")
    embedded = scorer.embed_prompts(whole.prompts)
    reusing = min(stored, scaled(REUSING))
    drafts = images[nearest(embedded[:reusing], embedded[stored:])]
    asked = replace(whole, prompts=whole.prompts[:reusing], seeds=whole.seeds[:reusing])
    for step in sorted({max(1, round(share * variant.steps)) for share in REUSED}):
        name = f"{variant.name}~k{step}"
        _write(folder, name, variant, _generated(folder, name, replace(asked, begin=step, drafts=drafts)), begin=step)


def _order(variant: Variant) -> Order:
    """The first prompts of the calibration set, as many as this variant is given."""
    calls = variant.steps * (2 if variant.guidance > 1 else 1)
    rng, count = np.random.default_rng(SEED), scaled(int(np.clip(WORK // calls, MIN_PROMPTS, MAX_PROMPTS)), 16)
    streams = (EASY if number % _EASY_EVERY == 0 else STANDARD for number in range(count))
    prompts = tuple(scenes.sample(rng, stream=stream).caption for stream in streams)
    return Order(variant=variant, prompts=prompts, seeds=tuple(range(SEED, SEED + count)))


def _generated(folder: Path, name: str, order: Order) -> GeneratedImages:
    """Generate the order's images in parts of one file each; existing files are reused."""
    kept = folder / "pictures"
    kept.mkdir(parents=True, exist_ok=True)
    parts = []
    for number, part in enumerate(track(list(order.split(_PART)), description=f"{name}: generating")):
        file = kept / f"{name}-{number:03}-{part.digest()}.npz"
        if not file.exists():
            generate_into(part, file)
        parts.append(GeneratedImages.load(file))
    return joined(parts)


def _write(folder: Path, name: str, variant: Variant, generated: GeneratedImages, begin: int = 0) -> None:
    prompts = _order(variant).prompts[: len(generated.quality)]
    table = Calibration(prompts, (name,), generated.quality[:, None], generated.facts[:, None])
    calibration.write(folder / f"{name}.npz", table, [run_ms(variant, 1) * (1 - begin / variant.steps)])


def _local(variant: Variant, models: Path) -> Variant:
    return replace(variant, model=str(folder_of(variant, models).resolve()))
