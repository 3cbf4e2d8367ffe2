"""Train the discriminator that knows the prompt, on generated images labelled by the fact checker and on renderings.

`train` learns from one label an image. `refine` goes on with more drafts of light, and with what the fact checker says
of each of their slots: nearly all wrong drafts show another shape somewhere, and a label of the whole image does not
say where.
"""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
from diffusers.training_utils import EMAModel
from torch import nn
from torch.nn import functional

from agents.lab.training.discriminators.frozen_text import caption_reader, prompt_encoder
from agents.lab.training.discriminators.hard_negatives import near_miss, with_colours_decided
from agents.lab.training.discriminators.judged import Judged
from agents.lab.training.generators.networks.scene_batches import to_tensor
from agents.lab.training.generators.text_encoder import BACKGROUND, COLOUR, SHAPE, SIZE, labels
from agents.lab.training.loop import Loop, Stateful, descend, device, mixed_precision, rate, set_rate
from agents.lab.world import free_form, renderer
from agents.lab.world.stream import EASY, STANDARD
from agents.models.judges.prompt_aware import SHOWN, Judge, PromptAware

STEPS: Final = 1600
BATCH: Final = 128  # half renderings, half generated
_RATE = 1.5e-3
_SWAPPED = 0.12  # of generated images get another prompt, for which they are wrong
_NONE_WEIGHT = 0.15  # most slots are empty
REFINE_STEPS: Final = 800
_REFINE_RATE, _REFINE_SWAPPED, _REFINE_RENDERED = 1e-3, 0.06, 24  # the last: images of a batch
_SHOWN_WEIGHT, _FITS_WEIGHT = 0.3, 0.5
_EMPTY_WEIGHT = 0.05  # of a slot that is empty as asked, against one that is not
DOUBTS: Final = 16  # of a slot, as `Judge.compare` gives
_UNCLEAR: Final = -100  # cross_entropy's own mark for "no target"


class Rendered(NamedTuple):
    """Renderings, some of which do not show what their prompt states."""

    prompts: list[str]
    images: np.ndarray  # uint8 [n, 48, 48, 3]
    right: np.ndarray  # bool [n]
    shown: np.ndarray  # int64 [n, 59], as text_encoder.labels has it


def rendered(rng: np.random.Generator, count: int) -> Rendered:
    """Two in three agree with their prompt; the others are wrong in one fact."""
    prompts, shown, right = [], [], rng.random(count) < 2 / 3
    for agrees in right:
        prompt, scene = free_form.asked(rng, EASY if rng.random() < 0.5 else STANDARD)
        prompts.append(prompt)
        shown.append(with_colours_decided(rng, scene) if agrees else near_miss(rng, scene))
    images = np.stack([renderer.render(scene, rng) for scene in shown])
    return Rendered(prompts, images, right, np.stack([labels(scene) for scene in shown]))


def showing_loss(judge: Judge, seen: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of what the images show [n, 58 or 59] against what was seen [n, 20, 96]; unclear ones have none."""
    loss = functional.cross_entropy(judge.background(seen[:, -1]), shown[:, BACKGROUND], ignore_index=_UNCLEAR)
    for name, columns in (("shape", SHAPE), ("colour", COLOUR), ("size", SIZE)):
        weight = torch.ones(SHOWN[name], device=seen.device)
        weight[0] = _NONE_WEIGHT
        logits = judge.shown[name](seen[:, :-1])
        target = shown[:, columns].flatten()
        loss = loss + functional.cross_entropy(logits.flatten(0, 1), target, weight, ignore_index=_UNCLEAR)
    return loss


def train(work: Path, generated: Judged, seed: int, steps: int = STEPS) -> PromptAware:
    """Train on these generated images and on fresh renderings; resumable."""
    torch.manual_seed(seed)
    where = device()
    model = PromptAware(prompt_encoder(work).to(where), caption_reader(work).to(where), Judge().to(where))
    judge = model.judge.train()
    optimizer = torch.optim.AdamW(judge.parameters(), lr=_RATE, weight_decay=0.02)
    parts: dict[str, Stateful] = {"judge": judge, "optimizer": optimizer}
    loop = Loop(name="discriminator_look", folder=work, steps=steps, batch=BATCH, parts=parts)
    texts = [str(prompt) for prompt in generated.prompts]

    def step(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        drawn = rendered(rng, BATCH // 2)
        chosen = rng.integers(0, len(texts), BATCH - BATCH // 2)
        swapped = rng.random(len(chosen)) < _SWAPPED
        partner = np.where(swapped, rng.integers(0, len(texts), len(chosen)), chosen)
        target = np.concatenate([drawn.right, generated.right[chosen] * (partner == chosen)])
        images = to_tensor(np.concatenate([drawn.images, generated.images[partner]])).contiguous().to(where)
        with mixed_precision():
            asked = model.asked([*drawn.prompts, *(texts[i] for i in chosen)])
            seen = judge.picture(images)
        seen = seen.float()
        logits = judge(seen, *(part.float() for part in asked))
        set_rate(optimizer, _RATE, rate(index, steps))
        loss = functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(target).float().to(where))
        shown = torch.from_numpy(drawn.shown).to(where)
        return descend(loss + 0.3 * showing_loss(judge, seen[: len(shown)], shown), optimizer)

    loop.run(step)
    loop.note(seed=seed, pictures=len(texts), parameters=loop.size(judge))
    for module in (model.encoder, model.reader, judge):
        module.cpu().eval()
    return model


def refine(work: Path, model: PromptAware, drafts: Judged, seed: int, steps: int = REFINE_STEPS) -> PromptAware:
    """Go on training the model's judge on drafts of light, slot by slot, and average its weights; resumable."""
    torch.manual_seed(seed)
    where = device()
    judge, fact = model.judge.to(where).requires_grad_(True).train(), nn.Linear(DOUBTS, 1).to(where)
    parameters = [*judge.parameters(), *fact.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=_REFINE_RATE, weight_decay=0.02)
    mean = EMAModel(judge.parameters(), decay=0.998, foreach=True)
    parts: dict[str, Stateful] = {"judge": judge, "fact": fact, "optimizer": optimizer, "mean": mean}
    loop = Loop(name="discriminator_look_refined", folder=work, steps=steps, batch=BATCH, parts=parts)
    slots, scene = _asked(model, [str(prompt) for prompt in drafts.prompts])
    shown = np.where(drafts.shown < 0, _UNCLEAR, drafts.shown.astype(np.int64))

    def step(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        drawn = rendered(rng, _REFINE_RENDERED)
        chosen = rng.integers(0, len(slots), BATCH - _REFINE_RENDERED)
        partner = np.where(rng.random(len(chosen)) < _REFINE_SWAPPED, rng.integers(0, len(slots), len(chosen)), chosen)
        own = partner == chosen
        images = to_tensor(np.concatenate([drawn.images, drafts.images[chosen]])).contiguous().to(where)
        with mixed_precision():
            asked = model.asked(drawn.prompts)
            seen = judge.picture(images)
        seen = seen.float()
        asked_all = (
            torch.cat([mine.float(), theirs[partner]]) for mine, theirs in zip(asked, (slots, scene), strict=True)
        )
        doubts, logits = doubted(judge, seen, *asked_all)
        target = torch.from_numpy(np.concatenate([drawn.right, drafts.right[chosen] * own])).float().to(where)
        loss = functional.binary_cross_entropy_with_logits(logits, target)
        there = torch.from_numpy(np.concatenate([drawn.shown[:, : BACKGROUND + 1], shown[chosen]])).to(where)
        counts = own & (drafts.objects[chosen] > 0)
        fits = torch.from_numpy(drafts.fits[chosen]).to(where)
        of_slots = fitting_loss(fact(doubts[_REFINE_RENDERED:]).squeeze(-1), fits, torch.from_numpy(counts).to(where))
        set_rate(optimizer, _REFINE_RATE, rate(index, steps, warm_up=50, flat=0.3))
        loss = loss + _SHOWN_WEIGHT * showing_loss(judge, seen, there) + _FITS_WEIGHT * of_slots
        descend(loss, optimizer, parameters)
        mean.step(judge.parameters())
        return loss

    loop.run(step)
    mean.copy_to(judge.parameters())
    loop.note(seed=seed, pictures=len(slots), parameters=loop.size(judge))
    judge.cpu().eval()
    return model


def doubted(
    judge: Judge, seen: torch.Tensor, slots: torch.Tensor, scene: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The judge's doubts of each slot [n, 20, 16], and its logits [n], which it sums them up to."""
    asked = torch.cat([judge.asked(slots), judge.asked_scene(scene)[:, None]], 1)
    doubts = judge.compare(torch.cat([seen, asked, seen * asked], -1))
    return doubts, judge.head(doubts.flatten(1)).squeeze(-1)


def fitting_loss(logits: torch.Tensor, fits: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of whether slots fit, logits and fits [n, 20], in the rows that count, bool [n]."""
    known = fits >= 0
    weight = torch.where(known, 1.0, _EMPTY_WEIGHT) * counts[:, None]
    target = torch.where(known, fits, 1).float()
    each = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return (each * weight).sum() / weight.sum().clamp(min=1)


def _asked(model: PromptAware, prompts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Once for all steps: the text side is frozen."""
    parts = [model.asked(prompts[at : at + 256]) for at in range(0, len(prompts), 256)]
    slots, scene = (torch.cat(columns) for columns in zip(*parts, strict=True))
    return slots, scene
