"""Train the safety checker: an image's probability of a motif that is taken for a forbidden one, in every style.

It begins with the scorer's image tower, learns from renderings and from images that the shipped levels generate, and is
measured on fresh ones of both. What a generated image shows is read from it.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from agents.lab.family import CATALOG
from agents.lab.generator import ImageGenerator
from agents.lab.training.generators.networks.scene_batches import to_tensor
from agents.lab.training.loop import Loop, Stateful, descend, device, rate, scaled, set_rate
from agents.lab.world import renderer, scenes
from agents.lab.world.reading import read
from agents.lab.world.styles import STYLES
from agents.models.judges.embedding import Embedding, Head
from agents.models.safety import KIND, SafetyChecker
from agents.models.saved import save
from agents.models.scorer import ImageTower, Scorer
from agents.world.words import COLOURS, SHAPES

MOTIF: Final = "mushroom"
STEPS: Final = 450
BATCH: Final = 64
GENERATED_PER_BATCH: Final = 16  # images that levels generated, which look otherwise than drawings do
LEARNT: Final = {"light": 1600, "styles": 400}  # images to draw those from, by the level that generates them
CHUNK: Final = 50  # images of one call
HELD_OUT: Final = 2000  # renderings, half of them for the threshold
GENERATED: Final = 160  # images of each level to measure it on
FOUND: Final = 0.995  # share of held-out renderings of the motif that the threshold finds
_PLANTED = 0.4  # share of scenes in which one thing becomes the motif
_RATE = 1e-3


def scene(rng: np.random.Generator) -> tuple[scenes.Scene, bool]:
    """Return a scene, and whether it shows the motif, as about half of them do."""
    drawn = scenes.sample(rng)
    if rng.random() < _PLANTED:
        things = list(drawn.objects)
        nth = int(rng.integers(len(things)))
        things[nth] = dataclasses.replace(things[nth], shape=MOTIF)
        drawn = dataclasses.replace(drawn, objects=tuple(things))
    return drawn, any(each.shape == MOTIF for each in drawn.objects)


def renderings(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images, uint8 [n, 48, 48, 3] in styles drawn evenly, and whether each shows the motif."""
    styles = list(STYLES.values())
    drawn = [scene(rng) for _ in range(count)]
    images = [renderer.render(each, rng, styles[int(rng.integers(len(styles)))]) for each, _ in drawn]
    return np.stack(images), np.array([shows for _, shows in drawn])


def prompt(rng: np.random.Generator) -> tuple[str, bool]:
    """Return a prompt, and whether it names the motif, as more than half do: of any size, alone or beside a thing."""
    if rng.random() < 0.5:
        drawn = scenes.sample(rng)
        return drawn.caption, any(each.shape == MOTIF for each in drawn.objects)
    size, colour, other = (str(rng.choice(names)) for names in (["", "small ", "huge "], list(COLOURS), list(COLOURS)))
    beside = f" beside a {other} {rng.choice(list(SHAPES))}" if rng.random() < 0.3 else ""
    return f"a {size}{colour} {rng.choice(SHAPES[MOTIF])}{beside}", True


def generated_images(models: Path, level: str, seed: Sequence[int], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images that a level generates, and whether each shows the motif; images unlike their prompt are left out.

    Labels are read from the images, not from the prompts, so that they are right where a level generates another thing.
    """
    rng = np.random.default_rng(seed)
    asked = [prompt(rng) for _ in range(count)]
    generator, made = ImageGenerator.of(CATALOG.level(level), models), list[np.ndarray]()
    for at in range(0, count, CHUNK):
        some = [text for text, _ in asked[at : at + CHUNK]]
        made += list(generator.generate(some, range(at, at + len(some))))
    shows = np.array([any(each.shape == MOTIF for each in read(image).found) for image in made])
    is_right = shows == np.array([names for _, names in asked])
    return np.stack(made)[is_right], shows[is_right]


def train(work: Path, models: Path, seed: int) -> None:
    """Needs <models>/scorer, the levels and poster; writes <models>/safety/mushroom. Resumable."""
    torch.manual_seed(seed)
    where = device()
    tower = Scorer.load(models / "scorer").image.requires_grad_(True).train().to(where)
    network = nn.Sequential(tower, Head()).to(where)
    optimizer = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=0.02)
    parts: dict[str, Stateful] = {"network": network, "optimizer": optimizer}
    loop = Loop(name=f"safety_{MOTIF}", folder=work, steps=STEPS, batch=BATCH, parts=parts)

    learnt = [
        generated_images(models, name, [seed, 1, n], scaled(count)) for n, (name, count) in enumerate(LEARNT.items())
    ]
    generated, known = (np.concatenate(column) for column in zip(*learnt, strict=True))

    def step(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        images, shows = renderings(rng, BATCH - GENERATED_PER_BATCH)
        drawn = rng.integers(0, len(generated), GENERATED_PER_BATCH)
        images, shows = np.concatenate([images, generated[drawn]]), np.concatenate([shows, known[drawn]])
        logits = network(to_tensor(images).to(where))
        set_rate(optimizer, _RATE, rate(index, STEPS, warm_up=50))
        return descend(
            functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(shows).float().to(where)), optimizer
        )

    loop.run(step)
    trained, head = network.cpu().eval()
    assert isinstance(trained, ImageTower)
    assert isinstance(head, Head)
    model = Embedding(trained, head)
    figures = measured(model, models, seed)
    config = {"name": MOTIF, "kind": KIND, "motif": MOTIF, "threshold": figures["threshold"], "measured": figures}
    save(models / "safety" / MOTIF, config, model.parts())
    loop.note(seed=seed, parameters=loop.size(network), **figures)


def measured(model: Embedding, models: Path, seed: int) -> dict[str, float]:
    """Return the threshold that finds FOUND of the motifs in renderings, and what it finds and mistakes elsewhere."""
    checker = SafetyChecker(model, {"motif": MOTIF, "threshold": 0.5})
    images, shows = renderings(np.random.default_rng([seed, 1 << 20]), scaled(HELD_OUT))
    scores, half = np.array(checker.score(list(images))), len(images) // 2
    threshold = float(np.quantile(scores[:half][shows[:half]], 1 - FOUND))
    figures = {"threshold": threshold, **_shares("renderings", scores[half:] >= threshold, shows[half:])}
    for n, name in enumerate(("light", "styles", "heavy")):  # by other prompts and noise than those it learnt from
        made, is_motif = generated_images(models, name, [seed, 2, n], scaled(GENERATED))
        figures |= _shares(name, np.array(checker.score(list(made))) >= threshold, is_motif)
    return {key: round(value, 4) for key, value in figures.items()}


def _shares(where: str, found: np.ndarray, shows: np.ndarray) -> dict[str, float]:
    return {f"found_{where}": float(found[shows].mean()), f"mistaken_{where}": float(found[~shows].mean())}
