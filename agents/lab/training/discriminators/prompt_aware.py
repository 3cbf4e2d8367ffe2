"""Train the discriminator that knows the prompt, on generated images labelled by the fact checker and on renderings."""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import torch
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
    """Cross-entropy of what the images show [n, 59] against what was seen [n, 20, 96]."""
    loss = functional.cross_entropy(judge.background(seen[:, -1]), shown[:, BACKGROUND])
    for name, columns in (("shape", SHAPE), ("colour", COLOUR), ("size", SIZE)):
        weight = torch.ones(SHOWN[name], device=seen.device)
        weight[0] = _NONE_WEIGHT
        logits = judge.shown[name](seen[:, :-1])
        loss = loss + functional.cross_entropy(logits.flatten(0, 1), shown[:, columns].flatten(), weight)
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
