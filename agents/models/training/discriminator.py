"""Train the discriminator on light, heavy and rendered pictures labelled by the fact checker, and calibrate it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import CLIPTextModel

from agents.models import renderer, scoring, world
from agents.models.caption_reader import CaptionReader
from agents.models.discriminator import Discriminator, Judge, Prompts, as_input
from agents.models.family import VARIANTS
from agents.models.painter import Painter
from agents.models.text_tower import from_clip
from agents.models.training import judged, junk
from agents.models.training.assemble import collect_notes
from agents.models.training.loop import Loop, Stateful, rate, set_rate
from agents.models.training.text_encoder import labels, reading_loss
from agents.models.words import BACKGROUNDS, COLOURS, SHAPES

_RATE = 1.5e-3
_ESCALATED = 0.35  # share of light pictures of the natural mix the recommended threshold sends on


def near_miss(rng: np.random.Generator, scene: world.Scene) -> world.Scene:
    """The scene with one fact changed: the hardest kind of wrong picture for its caption."""
    things = list(scene.objects)
    which, kind = int(rng.integers(len(things))), rng.random()
    thing = things[which]
    if kind < 0.4:
        things[which] = replace(thing, shape=str(rng.choice([s for s in SHAPES if s != thing.shape])))
    elif kind < 0.75:
        things[which] = replace(thing, colour=str(rng.choice([c for c in COLOURS if c != thing.colour])))
    elif kind < 0.85 and scene.background is not None:
        return replace(scene, background=str(rng.choice([b for b in BACKGROUNDS if b != scene.background])))
    elif len(things) > 1:
        del things[which]
    else:
        return world.sample(rng, len(things))
    return replace(scene, objects=tuple(things))


def rendered_batch(
    rng: np.random.Generator, count: int
) -> tuple[list[str], list[np.ndarray], np.ndarray, list[world.Scene]]:
    """Prompts, pictures, whether they agree (two in three do), and what the pictures really show."""
    prompts, shown, right = [], [], rng.random(count) < 2 / 3
    for agrees in right:
        scene = world.sample(rng)
        prompts.append(junk.mixed(rng, scene.caption) if rng.random() < 0.15 else scene.caption)
        shown.append(scene if agrees else near_miss(rng, scene))
    return prompts, [renderer.render(scene, rng) for scene in shown], right, shown


def build(work: Path) -> tuple[Prompts, Judge]:
    """The frozen text side, with its weights, and a fresh judge."""
    text = CLIPTextModel.from_pretrained(work / "text_encoder", dtype=torch.float32)
    reader = CaptionReader()
    reader.load_state_dict({k: v.float() for k, v in load_file(work / "caption_reader.safetensors").items()})
    tokenizer = Tokenizer.from_file(str(work / "tokenizer" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Prompts(from_clip(text.state_dict()), reader, tokenizer).eval(), Judge()


def calibrate(logits: torch.Tensor, right: torch.Tensor) -> tuple[float, float]:
    """Scale and shift of the logits under which they are honest probabilities (Platt 1999) on held-out pictures."""
    parameters = torch.tensor([1.0, 0.0], requires_grad=True)
    optimizer = torch.optim.LBFGS([parameters], max_iter=100)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(logits * parameters[0] + parameters[1], right)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    scale, shift = parameters.detach().tolist()
    return scale, shift


def save(folder: Path, work: Path, prompts: Prompts, judge: Judge, config: dict[str, object]) -> None:
    """Write model.safetensors (fp16), config.json and tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"tower": prompts.tower, "reader": prompts.reader, "judge": judge}
    weights = {
        f"{name}.{key}": v.half().contiguous() for name, part in parts.items() for key, v in part.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o644)
    shutil.copyfile(work / "tokenizer" / "tokenizer.json", folder / "tokenizer.json")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


@click.command(epilog="Example: python -m agents.models.training.discriminator --work build/models --steps 1400")
@click.option("--work", type=click.Path(path_type=Path), default=Path("build/models"), show_default=True)
@click.option("--models", type=click.Path(path_type=Path), default=Path("infra/models"), show_default=True)
@click.option("--steps", default=1400, show_default=True, help="Batches to train on.")
@click.option("--batch", default=128, show_default=True)
@click.option("--pictures", default=8000, show_default=True, help="Light pictures to learn from; a quarter of heavy.")
@click.option("--seed", default=6, show_default=True)
def main(work: Path, models: Path, steps: int, batch: int, pictures: int, seed: int) -> None:
    """Paint and label pictures, train, calibrate, and save to <models>/discriminator."""
    torch.manual_seed(seed)
    light = Painter(models / "light", VARIANTS["light"].steps, VARIANTS["light"].guidance)
    heavy = Painter(models / "heavy", VARIANTS["heavy"].steps, VARIANTS["heavy"].guidance)
    kept = judged.cached(work / "judged_held_out.npz", light, 7_000_000, 3000)
    learned = [
        judged.cached(work / "judged_light.npz", light, 8_000_000, pictures),
        judged.cached(work / "judged_heavy.npz", heavy, 9_000_000, pictures // 4),
    ]
    prompts, judge = build(work)
    _train(work, prompts, judge, learned, steps, batch, seed)
    _finish(models / "discriminator", work, prompts, judge, kept)
    collect_notes(work, models)


def _train(
    work: Path, prompts: Prompts, judge: Judge, learned: list[judged.Judged], steps: int, batch: int, seed: int
) -> None:
    painted = np.concatenate([part.pictures for part in learned])
    texts = [str(text) for part in learned for text in part.prompts]
    right = np.concatenate([part.right for part in learned])
    optimizer = torch.optim.AdamW(judge.parameters(), lr=_RATE, weight_decay=0.02)
    parts: dict[str, Stateful] = {"judge": judge, "optimizer": optimizer}
    loop = Loop(name="discriminator", folder=work, steps=steps, batch=batch, parts=parts)

    def step(index: int) -> torch.Tensor:
        rng = np.random.default_rng([seed, index])
        drawn, drawings, agree, shown = rendered_batch(rng, batch // 2)
        chosen = rng.integers(0, len(painted), batch - batch // 2)
        swapped = rng.random(len(chosen)) < 0.15  # another prompt's picture is wrong, however good it is
        partner = np.where(swapped, rng.integers(0, len(painted), len(chosen)), chosen)
        target = np.concatenate([agree, right[chosen] * (partner == chosen)])
        seen = judge.picture(as_input([*drawings, *painted[partner]]))
        logits = judge.judge(seen, *prompts([*drawn, *(texts[i] for i in chosen)]))
        set_rate(optimizer, _RATE, rate(index, steps))
        looked = seen[: len(drawn)]
        read = (judge.shape(looked[:, :-1]), judge.colour(looked[:, :-1]), judge.background(looked[:, -1]))
        loss = functional.binary_cross_entropy_with_logits(logits, torch.from_numpy(target).float())
        loss = loss + 0.3 * reading_loss(read, torch.from_numpy(np.stack([labels(scene) for scene in shown])))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    loop.run(step)
    loop.note(seed=seed, pictures=len(painted), parameters=loop.size(judge))


def _finish(folder: Path, work: Path, prompts: Prompts, judge: Judge, kept: judged.Judged) -> None:
    """Calibrate and choose the threshold on one half of the held-out light pictures; report AUC on the other."""
    half = len(kept.prompts) // 2
    plain = Discriminator(prompts, judge, 1.0, 0.0, 0.5)
    raw = np.array(plain.score(list(kept.pictures), [str(p) for p in kept.prompts]))
    logits = torch.from_numpy(np.log(np.clip(raw, 1e-6, 1 - 1e-6) / np.clip(1 - raw, 1e-6, 1))).float()
    scale, shift = calibrate(logits[:half], torch.from_numpy(kept.right[:half]).float())
    confidence = torch.sigmoid(logits * scale + shift).numpy()
    captions = kept.objects > 0
    threshold = float(np.quantile(confidence[:half][captions[:half]], _ESCALATED))
    test = np.arange(len(captions)) >= half
    config = {
        "vocabulary": prompts.tower.token.num_embeddings,
        "tokens": prompts.tower.place.num_embeddings,
        "scale": scale,
        "shift": shift,
        "threshold": round(threshold, 3),
        "auc_held_out": round(scoring.auc(confidence[test & captions], kept.right[test & captions] > 0.5), 4),
        "auc_free_form": round(scoring.auc(confidence[test & ~captions], kept.right[test & ~captions] > 0.5), 4),
        "deferral_curve": scoring.deferral_curve(confidence[test & captions]),
    }
    save(folder, work, prompts, judge, config)
    click.echo(json.dumps({k: v for k, v in config.items() if k != "deferral_curve"}))


if __name__ == "__main__":
    main()
