"""How good a scorer is, on scenes it has not seen."""

from typing import Final

import numpy as np
from scipy import stats

from agents.lab.training.discriminators.hard_negatives import holds, reworded, with_colours_decided
from agents.lab.world import free_form, renderer, scenes
from agents.lab.world.styles import POSTER, STYLES
from agents.models.scorer import Scorer

AMONG: Final = 192  # prompts that an image's own is to be found among
_BATCHES: Final = 5


def measure(scorer: Scorer, seed: int) -> dict[str, float]:
    """Shares and correlations by name:

    `retrieved`: an image's own prompt is the nearest of 192, and the other way round, on average;
    `retrieved_true`: the nearest prompt is true of the image (several prompts may be);
    `retrieved_styled`: as the first, for images in any style;
    `right_over_wrong`: the prompt is nearer than the same with a fact changed;
    `alike`: rank correlation of the likeness of two prompts with the share of things, slot by slot, that both ask for;
    `free_form_alike`: a sentence is nearer to itself amid two words more than to any of 191 others.
    """
    rng = np.random.default_rng(seed)
    rows = [_one_batch(scorer, rng) for _ in range(_BATCHES)]
    return {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]}


def _one_batch(scorer: Scorer, rng: np.random.Generator) -> dict[str, float]:
    stated = [scenes.sample(rng) for _ in range(AMONG)]
    shown = [with_colours_decided(rng, scene) for scene in stated]
    captions = [scene.caption for scene in stated]
    own = np.arange(AMONG)
    prompts = scorer.embed_prompts(captions)
    images = scorer.embed_images([renderer.render(scene, rng, POSTER) for scene in shown])
    styles = list(STYLES.values())
    styled = [renderer.render(scene, rng, styles[int(rng.integers(len(styles)))]) for scene in shown]
    wrong = scorer.embed_prompts(
        [reworded(rng, scene.caption, seen) for scene, seen in zip(stated, shown, strict=True)]
    )
    likeness = images @ prompts.T
    nearest = likeness.argmax(1)
    true = [holds(stated[near], seen) for near, seen in zip(nearest, shown, strict=True)]
    sentences = [free_form.sentence(rng) for _ in range(AMONG)]
    longer = scorer.embed_prompts([f"{sentence}, digital art" for sentence in sentences])
    free = scorer.embed_prompts(sentences) @ longer.T
    return {
        "retrieved": float(((nearest == own).mean() + (likeness.argmax(0) == own).mean()) / 2),
        "retrieved_true": float(np.mean(true)),
        "retrieved_styled": float(((scorer.embed_images(styled) @ prompts.T).argmax(1) == own).mean()),
        "right_over_wrong": float(((images * prompts).sum(1) > (images * wrong).sum(1)).mean()),
        "alike": _alike(stated, prompts),
        "free_form_alike": float((free.argmax(1) == own).mean()),
    }


def _alike(stated: list[scenes.Scene], prompts: np.ndarray) -> float:
    first, second = np.triu_indices(len(stated), 1)
    shared = [shared_share(stated[i], stated[j]) for i, j in zip(first, second, strict=True)]
    return float(stats.spearmanr((prompts @ prompts.T)[first, second], shared).statistic)


def shared_share(one: scenes.Scene, other: scenes.Scene) -> float:
    """0..1: of what either scene has (shape, colour and size of each slot, background), how much both have."""
    mine, theirs = (
        {(t.slot, field, getattr(t, field)) for t in scene.objects for field in ("shape", "colour", "size")}
        | {("", "background", scene.background)}
        for scene in (one, other)
    )
    return len(mine & theirs) / len(mine | theirs)
