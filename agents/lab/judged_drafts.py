"""A pool of drafts of a catalog's first cascade, judged by its discriminator and by the world's own checker.

Generated once for each seed and kept: images in parts, as `pochade profile` keeps them, then all scores in one file. An
interruption loses one part.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

from agents.engines import model_source
from agents.learning.bounds import bounds_of
from agents.profiling import world
from agents.profiling.file import BANDS
from agents.profiling.generation.orders import Order
from agents.profiling.generation.pool import GenerationPool
from agents.profiling.generation.rankers import find
from agents.profiling.generation.sweeps import order
from planner.catalog.entries import variant_of
from planner.catalog.guarantees import check_guarantees
from planner.catalog.model import Catalog
from schemas.errors import PochadeError

STANDARD = "all stated facts hold"
_CHUNK = 256  # images scored at once


class Drafts(NamedTuple):
    """n drafts: of one level, as one discriminator sees them."""

    level: str
    discriminator: str
    scores: np.ndarray  # float [n], confidences
    right: np.ndarray  # bool [n], whether all stated facts hold
    hardness: np.ndarray  # float [n] in [0, 1], as the product has it
    bounds: tuple[float, ...]  # of the hardness bands


def judged_drafts(catalog: Catalog, models: Path, count: int, seed: int, folder: Path, jobs: int = 1) -> Drafts:
    """Return `count` drafts of the first cascade's light level, for prompts that `seed` decides; `folder` keeps them.

    Raises:
        PochadeError: no world is installed, the discriminator cannot judge these images, a process died.
    """
    pair = catalog.pair()
    asked = world.needed("judging drafts needs").prompts(seed, count, "standard")
    wanted = order(catalog.level(pair.light), asked)
    judged = folder / f"{pair.light}-{pair.discriminator}-{_digest(wanted, catalog)}.npz"
    if not judged.exists():
        generated = GenerationPool(folder / "parts", jobs=jobs).generate({pair.light: wanted})[pair.light]
        rankers = find(catalog, models)
        if pair.discriminator not in rankers.discriminators:
            raise PochadeError(f"discriminator {pair.discriminator!r} cannot be loaded: {'; '.join(rankers.missing)}")
        images, parts = generated.images(), []
        for at in track(range(0, count, _CHUNK), f"judging by {pair.discriminator}", console=Console(stderr=True)):
            rows = slice(at, at + _CHUNK)
            part = rankers.confidences(pair.discriminator, list(images[rows]), list(asked.prompts[rows]))
            if part is None:
                raise PochadeError(rankers.missing[-1])
            parts.append(part)
        partial = judged.with_suffix(".partial")
        with partial.open("wb") as out:
            np.savez_compressed(
                out, allow_pickle=False, scores=np.concatenate(parts), right=generated.quality == 1,
                hardness=rankers.hardness(asked.prompts),
            )  # fmt: skip
        partial.replace(judged)
    with np.load(judged, allow_pickle=False) as kept:
        return Drafts(pair.light, pair.discriminator, kept["scores"], kept["right"], kept["hardness"], BANDS)


def write_promises(drafts: Drafts, profile: Path, date: str) -> None:
    """Write into a profile, NAME.json, what the drafts promise of their level; `date`: when they were judged.

    The other levels' own bounds are those of the profile's own prompts (NAME-quality.npz), of the day of the profile.
    """
    root = json.loads(profile.read_text())
    with np.load(profile.with_name(f"{profile.stem}-quality.npz"), allow_pickle=False) as arrays:
        levels, quality, hardness = (arrays[name] for name in ("levels", "quality", "hardness"))
    found = [
        bounds_of(name, "", None, column == 1, hardness, drafts.bounds, standard=STANDARD, date=root["created"][:10])
        for name, column in zip(levels.tolist(), quality.T, strict=True)
        if name != drafts.level and variant_of(name) == name and np.isin(column, (0, 1)).all()
    ]
    for judge, scores in (("", None), (drafts.discriminator, drafts.scores)):
        found.append(
            bounds_of(
                drafts.level, judge, scores, drafts.right, drafts.hardness, drafts.bounds, standard=STANDARD, date=date
            )
        )
    check_guarantees(found, profile.name)
    note = (
        f"guarantees of {drafts.level} are of {len(drafts.right):,} drafts of {date}, by `pochade bench guarantee "
        "--into`; those of other levels are of this profile's prompts"
    )
    notes = [each for each in root["notes"] if not each.startswith("guarantees of")]
    root |= {"notes": [*notes, note], "guarantees": [asdict(each) for each in found]}
    profile.write_text(json.dumps(root, indent=1) + "\n")


def _digest(wanted: Order, catalog: Catalog) -> str:
    """A key of what decides the drafts and their scores: prompts, level, judges."""
    found = hashlib.sha256(wanted.digest().encode())
    folders = [catalog.discriminator(catalog.pair().discriminator).folder]
    folders += [each.folder for each in catalog.classifiers.values()]
    for folder in (Path(model_source(each)) for each in folders if each):
        for file in sorted(folder.iterdir()):
            if file.is_file() and file.suffix != ".md":  # a card changes no score
                found.update(file.name.encode() + file.read_bytes())
    return found.hexdigest()[:16]
