"""Train tokenizer and text encoder: token states from which every slot's shape and colour can be read; then frozen."""

from pathlib import Path

import click
import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from agents.models import world
from agents.models.caption_reader import (
    BACKGROUND_LABELS,
    COLOUR_LABELS,
    NONE,
    SHAPE_LABELS,
    SLOT_NAMES,
    CaptionReader,
)
from agents.models.training import junk, tokenizer
from agents.models.training.loop import Loop, device, rate, set_rate

_RATE = 1.5e-3
_IGNORED = -100  # cross_entropy's own mark for "no target"


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
    """int64 [n, 40], padded and cut as the pipeline does."""
    encoded = words(prompts, padding="max_length", max_length=tokenizer.LENGTH, truncation=True, return_tensors="pt")
    return torch.as_tensor(encoded["input_ids"])


def labels(scene: world.Scene | None) -> np.ndarray:
    """int64 [19]: shape of each slot, colour of each slot, background. None asks for nothing."""
    out = np.full(2 * len(SLOT_NAMES) + 1, NONE, np.int64)
    if scene is None:
        return out
    for thing in scene.objects:
        slot = SLOT_NAMES.index(thing.slot)
        out[slot], out[slot + len(SLOT_NAMES)] = SHAPE_LABELS[thing.shape], COLOUR_LABELS[thing.colour]
    out[-1] = BACKGROUND_LABELS[scene.background or "plain"]
    return out


def example(rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """A prompt with its labels: mostly captions, some amid junk, some free-form with a hint, some pure junk."""
    kind = rng.random()
    if kind < 0.8:
        scene = world.sample(rng, int(rng.integers(1, 5)))
        return (junk.mixed(rng, scene.caption) if kind < 0.18 else scene.caption), labels(scene)
    if kind < 0.93:
        prompt, scene, named = junk.hinted(rng)
        out = labels(scene)
        for name, place in (("shape", 0), ("colour", len(SLOT_NAMES)), ("background", -1)):
            if name not in named:
                out[place] = _IGNORED
        return prompt, out
    return junk.sentence(rng), labels(None)


def reading_loss(logits: tuple[torch.Tensor, torch.Tensor, torch.Tensor], target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of all slots, filled ones weighted up: eight of nine are empty in the simplest scene."""
    slots = len(SLOT_NAMES)
    weight = torch.ones(16, device=target.device)
    weight[NONE] = 0.3
    shape = functional.cross_entropy(logits[0].flatten(0, 1), target[:, :slots].flatten(), weight[:15])
    colour = functional.cross_entropy(logits[1].flatten(0, 1), target[:, slots:-1].flatten(), weight[:9])
    return shape + colour + functional.cross_entropy(logits[2], target[:, -1])


@torch.inference_mode()
def scenes_read(model: CLIPTextModel, reader: CaptionReader, words: CLIPTokenizer, seed: int, count: int) -> float:
    """Share of fresh captions of which every slot and the background are read right."""
    rng = np.random.default_rng(seed)
    drawn = [world.sample(rng) for _ in range(count)]
    logits = reader(model(tokens(words, [s.caption for s in drawn]).to(device())).last_hidden_state)
    read = torch.cat([logits[0].argmax(-1), logits[1].argmax(-1), logits[2].argmax(-1, keepdim=True)], 1).cpu()
    return float((read == torch.from_numpy(np.stack([labels(s) for s in drawn]))).all(1).float().mean())


@click.command(epilog="Example: python -m agents.models.training.text_encoder --work build/models --steps 1150")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/models"), show_default=True)
@click.option("--steps", default=1150, show_default=True, help="Batches to train on.")
@click.option("--batch", default=192, show_default=True)
@click.option("--seed", default=2, show_default=True)
def main(work: Path, steps: int, batch: int, seed: int) -> None:
    """Train the text encoder shared by all variants; goes on from its checkpoint if there is one."""
    torch.manual_seed(seed)
    where = device()
    words = tokenizer.train(work / "tokenizer", seed)
    model, reader = build(words).to(where), CaptionReader().to(where)
    parameters = [*model.parameters(), *reader.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=0.01)
    loop = Loop(
        name="text_encoder",
        folder=work,
        steps=steps,
        batch=batch,
        parts={"model": model, "reader": reader, "optimizer": optimizer},
    )

    def step(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        prompts, targets = zip(*(example(rng) for _ in range(batch)), strict=True)
        set_rate(optimizer, _RATE, rate(index, steps))
        with torch.autocast(where.type, torch.bfloat16):
            states = model(tokens(words, list(prompts)).to(where)).last_hidden_state
            logits = reader(states)
        shape, colour, ground = (part.float() for part in logits)
        loss = reading_loss((shape, colour, ground), torch.from_numpy(np.stack(targets)).to(where))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss

    loop.run(step)
    right = scenes_read(model.eval(), reader.eval(), words, seed + 1000, 1000)
    loop.note(seed=seed, scenes_read=right, parameters=loop.size(model))
    loop.console.print(f"text encoder: whole scene read right {right:.3f}")
    model.half().save_pretrained(work / "text_encoder")
    save_file(reader.half().state_dict(), work / "caption_reader.safetensors")


if __name__ == "__main__":
    main()
