"""Train tokenizer and text encoder: token states from which every slot's shape and colour can be read; then frozen."""

from pathlib import Path
from typing import Final

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from agents.lab.training.generators.networks import tokenizer
from agents.lab.training.loop import Loop, descend, device, mixed_precision, rate, scaled, set_rate
from agents.lab.world import free_form, scenes
from agents.lab.world.patterns import MAX_OBJECTS
from agents.models.caption_reader import (
    NOTHING,
    SLOT_NAMES,
    Asked,
    CaptionReader,
)
from agents.world.words import BACKGROUND_RGB, COLOURS, SHAPES, SIZES

STEPS: Final = 1400
BATCH: Final = 192
_RATE: Final = 1.5e-3
_IGNORED: Final = -100  # cross_entropy's own mark for "no target"


def build(words: CLIPTokenizer) -> CLIPTextModel:
    """A CLIP text model of 2 layers x 128, about 0.6 M parameters."""
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(words),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=tokenizer.LENGTH,
            projection_dim=128,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.eos_token_id,
        )
    )


def tokens(words: CLIPTokenizer, prompts: list[str]) -> torch.Tensor:
    """int64 [n, 48], padded and cut as the pipeline does."""
    encoded = words(prompts, padding="max_length", max_length=tokenizer.LENGTH, truncation=True, return_tensors="pt")
    return torch.as_tensor(encoded["input_ids"])


SLOTS: Final = len(SLOT_NAMES)
SHAPE_LABELS: Final = {name: number for number, name in enumerate(SHAPES, start=1)}
COLOUR_LABELS: Final = {name: number for number, name in enumerate(COLOURS, start=1)}
UNLIKE_LABELS: Final = {name: number + len(COLOURS) for name, number in COLOUR_LABELS.items()}  # any colour but this
SIZE_LABELS: Final = {name: number for number, name in enumerate(("", *SIZES), start=1)}
BACKGROUND_LABELS: Final = {name: number for number, name in enumerate(BACKGROUND_RGB)}  # 0 is plain
SHAPE, COLOUR, SIZE = (slice(part * SLOTS, (part + 1) * SLOTS) for part in range(3))
BACKGROUND, ABSENT = 3 * SLOTS, 3 * SLOTS + 1


def labels(scene: scenes.Scene | None) -> np.ndarray:
    """int64 [59]: shape of each slot, colour of each slot, size of each slot, background, absent shape.

    None asks for nothing.
    """
    out = np.full(ABSENT + 1, NOTHING, np.int64)
    if scene is None:
        return out
    for thing in scene.objects:
        slot = SLOT_NAMES.index(thing.slot)
        out[SHAPE][slot] = SHAPE_LABELS[thing.shape]
        out[COLOUR][slot] = (UNLIKE_LABELS if thing.is_unlike else COLOUR_LABELS)[thing.colour]
        out[SIZE][slot] = SIZE_LABELS[thing.size]
    out[BACKGROUND] = BACKGROUND_LABELS[scene.background or "plain"]
    out[ABSENT] = SHAPE_LABELS[scene.absent] if scene.absent else NOTHING
    return out


def example(rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """A prompt with its labels: mostly captions, some amid junk, some free-form with a hint, some pure junk."""
    kind = rng.random()
    if kind < 0.8:
        scene = scenes.sample(rng, int(rng.integers(1, MAX_OBJECTS + 1)))
        return (free_form.mixed(rng, scene.caption) if kind < 0.18 else scene.caption), labels(scene)
    if kind < 0.93:
        prompt, scene, named = free_form.hinted(rng)
        out = labels(scene)
        if "shape" not in named:
            out[SHAPE][0] = _IGNORED
        if "colour" not in named:
            out[COLOUR][0] = _IGNORED
        if "background" not in named:
            out[BACKGROUND] = _IGNORED
        return prompt, out
    return free_form.sentence(rng), labels(None)


def reading_loss(asked: Asked, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of all slots, filled ones weighted up: eighteen of nineteen are empty in the simplest scene."""

    def slots(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        weight = torch.ones(logits.shape[-1], device=target.device)
        weight[NOTHING] = 0.15
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), weight)

    things = slots(asked.shape, target[:, SHAPE]) + slots(asked.colour, target[:, COLOUR])
    scene = functional.cross_entropy(asked.background, target[:, BACKGROUND])
    scene = scene + functional.cross_entropy(asked.absent, target[:, ABSENT])
    return things + slots(asked.size, target[:, SIZE]) + scene


@torch.inference_mode()
def scenes_read(model: CLIPTextModel, reader: CaptionReader, words: CLIPTokenizer, seed: int, count: int) -> float:
    """Share of fresh captions of which every slot and the background are read right."""
    rng = np.random.default_rng(seed)
    drawn = [scenes.sample(rng) for _ in range(count)]
    asked = reader(model(tokens(words, [s.caption for s in drawn]).to(device())).last_hidden_state)
    whole = (part.argmax(-1, keepdim=True) for part in (asked.background, asked.absent))
    read = torch.cat([*(part.argmax(-1) for part in (asked.shape, asked.colour, asked.size)), *whole], 1).cpu()
    return float((read == torch.from_numpy(np.stack([labels(s) for s in drawn]))).all(1).float().mean())


def train(work: Path, models: Path, seed: int) -> None:  # noqa: ARG001 - it ships as a part of the levels
    """Train what all variants share into <work>/tokenizer, text_encoder and caption_reader.safetensors.

    Goes on from its checkpoint if there is one.
    """
    torch.manual_seed(seed)
    where = device()
    words = tokenizer.train(work / "tokenizer", seed)
    model, reader = build(words).to(where), CaptionReader().to(where)
    parameters = [*model.parameters(), *reader.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=0.01)
    parts = {"model": model, "reader": reader, "optimizer": optimizer}
    loop = Loop(name="text_encoder", folder=work, steps=STEPS, batch=BATCH, parts=parts)

    def step(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        prompts, targets = zip(*(example(rng) for _ in range(BATCH)), strict=True)
        set_rate(optimizer, _RATE, rate(index, STEPS))
        with mixed_precision():
            states = model(tokens(words, list(prompts)).to(where)).last_hidden_state
            asked = reader(states)
        loss = reading_loss(Asked(*(part.float() for part in asked)), torch.from_numpy(np.stack(targets)).to(where))
        return descend(loss, optimizer, parameters)

    loop.run(step)
    right = scenes_read(model.eval(), reader.eval(), words, seed + 1000, scaled(1000))
    loop.note(seed=seed, scenes_read=right, parameters=loop.size(model))
    loop.console.print(f"text encoder: whole scene read right {right:.3f}")
    model.half().save_pretrained(work / "text_encoder")
    save_file(reader.half().state_dict(), work / "caption_reader.safetensors")
