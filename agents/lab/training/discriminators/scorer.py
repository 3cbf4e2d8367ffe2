"""Train the scorer: images and prompts of one scene together, all others apart, also those wrong in one fact only."""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from agents.lab.training.discriminators.frozen_text import copy_tokenizer, prompt_encoder, tokenizer_file
from agents.lab.training.discriminators.hard_negatives import holds, reworded, what_stands_where, with_colours_decided
from agents.lab.training.discriminators.retrieval import measure
from agents.lab.training.generators.networks.scene_batches import to_tensor
from agents.lab.training.loop import Loop, Stateful, descend, device, mixed_precision, rate, set_rate
from agents.lab.world import free_form, renderer, scenes
from agents.lab.world.styles import POSTER, STYLES, Style
from agents.models.prompt_encoder import PromptEncoder
from agents.models.saved import save
from agents.models.scorer import IMAGE_PART, WIDTH, ImageTower, PromptTower, Scorer

STEPS: Final = 480
BATCH: Final = 192
SENTENCES: Final = 48  # free-form prompts a batch
_RATE = 2e-3
_WARMEST, _COLDEST = 1.0, 100.0  # limits of the inverse temperature
_FREE_FORM_WEIGHT = 0.25
_STYLES: Final = tuple(STYLES.values())


class Batch(NamedTuple):
    """Scenes with their images and prompts, and free-form sentences in two wordings."""

    images: np.ndarray  # uint8 [n, 48, 48, 3]
    prompts: list[str]
    wrong: list[str]  # [n] prompts that are just not true of the image
    also_true: np.ndarray  # bool [n, n]: prompt j is true of image i too, though i is not j
    sentences: list[str]
    retold: list[str]


def style_for(rng: np.random.Generator) -> Style:
    """Poster in six of ten images, else any style."""
    return POSTER if rng.random() < 0.6 else _STYLES[int(rng.integers(len(_STYLES)))]


def batch(rng: np.random.Generator, count: int, sentences: int = SENTENCES) -> Batch:
    """Fresh ones: most prompts are captions, some amid junk, some free-form that name a thing or two."""
    drawn = [_prompted(rng) for _ in range(count)]
    stated, shown = [scene for scene, _, _, _ in drawn], [scene for _, scene, _, _ in drawn]
    images = np.stack([renderer.render(scene, rng, style_for(rng)) for scene in shown])
    free = [free_form.sentence(rng) for _ in range(sentences)]
    prompts, wrong = [prompt for _, _, prompt, _ in drawn], [changed for _, _, _, changed in drawn]
    return Batch(images, prompts, wrong, also_true(stated, shown), free, [retell(rng, text) for text in free])


def _prompted(rng: np.random.Generator) -> tuple[scenes.Scene, scenes.Scene, str, str]:
    """(stated scene, shown scene, prompt, wrong prompt)."""
    kind = rng.random()
    if kind < 0.1:
        prompt, scene, _ = free_form.hinted(rng)
        return scene, scene, prompt, scenes.sample(rng).caption
    scene = scenes.sample(rng)
    shown = with_colours_decided(rng, scene)
    wrong = reworded(rng, scene.caption, shown)
    if kind < 0.25:
        noise = int(rng.integers(1 << 32))  # the same junk around both, so that it separates nothing
        prompt, wrong = (free_form.mixed(np.random.default_rng(noise), text) for text in (scene.caption, wrong))
        return scene, shown, prompt, wrong
    return scene, shown, scene.caption, wrong


def also_true(stated: list[scenes.Scene], shown: list[scenes.Scene]) -> np.ndarray:
    """bool [n, n]: what is stated in row j is true of what row i shows; False on the diagonal."""
    out = np.zeros((len(shown), len(stated)), bool)
    rows: dict[object, list[int]] = {}
    for row, scene in enumerate(stated):
        rows.setdefault(what_stands_where(scene), []).append(row)
    for row, scene in enumerate(shown):
        for other in rows.get(what_stands_where(scene), []):
            out[row, other] = other != row and holds(stated[other], scene)
    return out


def retell(rng: np.random.Generator, sentence: str) -> str:
    """A sentence's clauses in another order, with some words left out."""
    clauses = sentence.split(", ")
    words = [
        " ".join(word for word in clauses[i].split() if rng.random() < 0.85) for i in rng.permutation(len(clauses))
    ]
    return ", ".join(clause for clause in words if clause) or sentence


def contrast(
    image: torch.Tensor, prompt: torch.Tensor, wrong: torch.Tensor, also: torch.Tensor, heat: torch.Tensor
) -> torch.Tensor:
    """InfoNCE of unit vectors [n, d] both ways, with wrong prompts [n, d]; pairs in `also` [n, n] are left out."""
    target = torch.arange(len(image), device=image.device)
    alike = (image @ prompt.T * heat).masked_fill(also, -torch.inf)
    to_prompt = functional.cross_entropy(torch.cat([alike, image @ wrong.T * heat], 1), target)
    return (to_prompt + functional.cross_entropy(alike.T, target)) / 2


class Temperature(nn.Module):
    """The learned inverse temperature, within limits."""

    def __init__(self) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(14.0).log())

    def forward(self) -> torch.Tensor:
        return self.log.exp().clamp(_WARMEST, _COLDEST)


def _unit(embedding: torch.Tensor) -> torch.Tensor:
    return functional.normalize(embedding.float(), dim=-1)


def train(work: Path, models: Path, seed: int) -> None:
    """Needs the text encoder in the work folder; writes <models>/scorer and its figures into work/scorer.json."""
    torch.manual_seed(seed)
    where = device()
    encoder: PromptEncoder = prompt_encoder(work).to(where)
    prompt, image, temperature = PromptTower().to(where), ImageTower().to(where), Temperature().to(where)
    parameters = [p for part in (prompt, image, temperature) for p in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=0.05)
    parts: dict[str, Stateful] = {
        "prompt": prompt,
        IMAGE_PART: image,
        "temperature": temperature,
        "optimizer": optimizer,
    }
    loop = Loop(name="scorer", folder=work, steps=STEPS, batch=BATCH, parts=parts)

    def step(index: int) -> torch.Tensor:
        drawn = batch(np.random.default_rng([seed, index]), BATCH)
        with mixed_precision():
            seen = image(to_tensor(drawn.images).contiguous().to(where))
            read = prompt(encoder([*drawn.prompts, *drawn.wrong, *drawn.sentences, *drawn.retold]))
        seen, read = _unit(seen), _unit(read)
        right, wrong, sentences, retold = torch.split(read, [BATCH, BATCH, SENTENCES, SENTENCES])
        heat = temperature()
        loss = contrast(seen, right, wrong, torch.from_numpy(drawn.also_true).to(where), heat)
        target = torch.arange(SENTENCES, device=where)
        free = functional.cross_entropy(sentences @ torch.cat([retold, right]).T * heat, target)
        set_rate(optimizer, _RATE, rate(index, STEPS, warm_up=40))
        return descend(loss + _FREE_FORM_WEIGHT * free, optimizer, parameters)

    loop.run(step)
    scorer = Scorer(encoder.cpu(), prompt.cpu(), image.cpu())
    figures = measure(scorer, seed + 1_000_000)
    loop.note(
        seed=seed, parameters=loop.size(prompt) + loop.size(image), heat=round(temperature().item(), 2), **figures
    )
    save(models / "scorer", {"width": WIDTH, **encoder.config, "measured": figures}, scorer.parts())
    copy_tokenizer(tokenizer_file(work), models / "scorer")
