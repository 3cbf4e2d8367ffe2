"""Pictures painted by a variant for fresh prompts, with the label the discriminator is to predict."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.progress import track

from agents.models import facts, world
from agents.models.painter import Painter
from agents.models.reading import read
from agents.models.training import junk

_BATCH = 32


class Judged(NamedTuple):
    """Prompts with painted pictures; `right` is what to predict, `objects` is 0 outside the grammar."""

    prompts: np.ndarray  # str [n]
    pictures: np.ndarray  # uint8 [n, 32, 32, 3]
    right: np.ndarray  # float [n]: 0 or 1 for captions, graded outside the grammar
    objects: np.ndarray  # int [n]


def clarity(picture: np.ndarray, scene: world.Scene, named: frozenset[str]) -> float:
    """What can be judged without a grammar, 0..1: how clear the things shown are, and whether the words given are met.

    Graded, not yes or no: nearly every sketch of such a prompt is unclear, and a judge must still tell them apart.
    """
    seen, wanted = read(picture), scene.objects[0]
    if not seen.found:
        return 0.0
    clear = float(np.mean([np.clip((thing.overlap - 0.45) / 0.45, 0, 1) for thing in seen.found]))
    met = ("background" not in named or seen.background == scene.background) and any(
        ("shape" not in named or f.shape == wanted.shape) and ("colour" not in named or f.colour == wanted.colour)
        for f in seen.found
    )
    return clear if met else clear / 4


def prompt_for(rng: np.random.Generator) -> tuple[str, world.Scene, frozenset[str] | None]:
    """A prompt of the natural mix, some amid junk, and one in eight free-form (with what it names of its scene)."""
    kind = rng.random()
    if kind < 0.08:
        return junk.hinted(rng)
    scene = world.sample(rng)
    if kind < 0.13:
        return junk.sentence(rng), scene, frozenset()
    return (junk.mixed(rng, scene.caption) if kind < 0.23 else scene.caption), scene, None


def label(prompted: tuple[str, world.Scene, frozenset[str] | None], picture: np.ndarray) -> float:
    """What the discriminator is to say: for a caption 1 if all facts hold, else 0; for other prompts the clarity."""
    _, scene, named = prompted
    if named is None:
        return float(facts.check(scene.caption, picture).all_hold)
    return clarity(picture, scene, named)


def paint(painter: Painter, seed: int, count: int) -> Judged:
    """Paint and label `count` fresh prompts."""
    rng = np.random.default_rng(seed)
    drawn = [prompt_for(rng) for _ in range(count)]
    painted = [
        painter.paint(
            [prompt for prompt, _, _ in drawn[at : at + _BATCH]],
            range(seed + at, seed + at + len(drawn[at : at + _BATCH])),
        )
        for at in track(range(0, count, _BATCH), description=f"painting {count} pictures")
    ]
    pictures = np.concatenate(painted)
    right = np.array([label(prompted, picture) for prompted, picture in zip(drawn, pictures, strict=True)])
    objects = np.array([0 if named is not None else len(scene.objects) for _, scene, named in drawn])
    return Judged(np.array([prompt for prompt, _, _ in drawn]), pictures, right, objects)


def cached(path: Path, painter: Painter, seed: int, count: int) -> Judged:
    """As `paint`, kept in an .npz file for the next run."""
    if not path.exists():
        np.savez_compressed(path, **paint(painter, seed, count)._asdict())
    with np.load(path) as kept:
        return Judged(*(kept[name] for name in Judged._fields))
