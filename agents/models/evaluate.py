"""Measure the shipped family: facts by number of objects, latency, and the discriminator; writes measured.json."""

import json
import platform
import time
from pathlib import Path

import click
import numpy as np
import torch
from PIL import Image
from rich.progress import track

from agents.models import facts, scoring, world
from agents.models.cards import write_cards
from agents.models.discriminator import Discriminator
from agents.models.family import FOLDER, VARIANTS
from agents.models.layout import SIZE
from agents.models.painter import Painter

_BATCH = 32
_LATENCY_BATCHES = (1, 2, 4, 8)
_REPEATS = 9


def fresh_scenes(count: int, seed: int) -> list[world.Scene]:
    """`count` scenes for each number of objects, one to four."""
    rng = np.random.default_rng(seed)
    return [world.sample(rng, objects) for objects in (1, 2, 3, 4) for _ in range(count)]


def paint_all(painter: Painter, scenes: list[world.Scene], seed: int, title: str) -> np.ndarray:
    """uint8 [n, 32, 32, 3]; picture i starts from noise seed + i, whatever the variant."""
    parts = []
    for at in track(range(0, len(scenes), _BATCH), description=title):
        captions = [scene.caption for scene in scenes[at : at + _BATCH]]
        parts.append(painter.paint(captions, range(seed + at, seed + at + len(captions))))
    return np.concatenate(parts)


def latency_ms(painter: Painter) -> dict[str, float]:
    """Median CPU time of a whole call by batch size, on one thread: what it takes on an otherwise idle core."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    out = {}
    for batch in _LATENCY_BATCHES:
        times = []
        for _ in range(_REPEATS + 2):
            began = time.process_time()
            painter.paint(["a red heart above a blue star"] * batch, range(batch))
            times.append((time.process_time() - began) * 1e3)
        out[str(batch)] = round(float(np.median(times[2:])), 1)
    torch.set_num_threads(threads)
    return out


def summary(reports: list[facts.FactReport], scenes: list[world.Scene]) -> dict[str, object]:
    """Share of facts and of pictures with all facts right, with standard errors."""
    share = np.array([report.share for report in reports])
    right = np.array([report.all_hold for report in reports], float)
    number = np.array([len(scene.objects) for scene in scenes])
    by = {
        str(n): {
            "all_facts": round(float(right[number == n].mean()), 4),
            "standard_error": round(scoring.standard_error(right[number == n]), 4),
            "n": int((number == n).sum()),
        }
        for n in sorted(set(number.tolist()))
    }
    return {
        "quality": round(float(share.mean()), 4),
        "quality_standard_error": round(scoring.standard_error(share), 4),
        "all_facts": round(float(right.mean()), 4),
        "all_facts_by_objects": by,
    }


def grid(pictures: np.ndarray, columns: int, zoom: int = 4) -> Image.Image:
    """A contact sheet with 1 px gaps."""
    rows = -(-len(pictures) // columns)
    sheet = np.full((rows * (SIZE + 1) + 1, columns * (SIZE + 1) + 1, 3), 255, np.uint8)
    for at, picture in enumerate(pictures):
        row, column = divmod(at, columns)
        y, x = row * (SIZE + 1) + 1, column * (SIZE + 1) + 1
        sheet[y : y + SIZE, x : x + SIZE] = picture
    return Image.fromarray(sheet).resize((sheet.shape[1] * zoom, sheet.shape[0] * zoom), Image.Resampling.NEAREST)


def judged(
    discriminator: Discriminator, scenes: list[world.Scene], painted: dict[str, np.ndarray]
) -> dict[str, object]:
    """What the discriminator makes of light pictures of the natural mix, and what escalating by it would gain."""
    captions = [scene.caption for scene in scenes]
    reports = {name: [facts.check(c, p) for c, p in zip(captions, ps, strict=True)] for name, ps in painted.items()}
    right = {name: np.array([report.all_hold for report in rs]) for name, rs in reports.items()}
    light, heavy = (np.array([report.share for report in reports[name]]) for name in ("light", "heavy"))
    scores = np.array(discriminator.score(list(painted["light"]), captions))
    deferred = scores < discriminator.threshold
    return {
        "n": len(scenes),
        "auc": round(scoring.auc(scores, right["light"]), 4),
        "auc_heavy": round(
            scoring.auc(np.array(discriminator.score(list(painted["heavy"]), captions)), right["heavy"]), 4
        ),
        "brier": round(float(((scores - right["light"]) ** 2).mean()), 4),
        "threshold": discriminator.threshold,
        "deferred_at_threshold": round(float(deferred.mean()), 4),
        "quality_light": round(float(light.mean()), 4),
        "quality_heavy": round(float(heavy.mean()), 4),
        "quality_at_threshold": round(float(np.where(deferred, heavy, light).mean()), 4),
        "all_facts_light": round(float(right["light"].mean()), 4),
        "all_facts_heavy": round(float(right["heavy"].mean()), 4),
        "all_facts_at_threshold": round(float(np.where(deferred, right["heavy"], right["light"]).mean()), 4),
        "recovery": {str(share): round(scoring.recovery(scores, light, heavy, share), 3) for share in (0.3, 0.5, 0.7)},
        "deferral_curve": scoring.deferral_curve(scores),
    }


def judge_latency_ms(discriminator: Discriminator, picture: np.ndarray) -> float:
    """Median CPU time to score one picture, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times = []
    for _ in range(30):
        began = time.process_time()
        discriminator.score([picture], ["a red heart above a blue star"])
        times.append((time.process_time() - began) * 1e3)
    torch.set_num_threads(threads)
    return round(float(np.median(times)), 2)


@click.command(epilog="Example: python -m agents.models.evaluate --count 250 --seed 77 --grids build/grids")
@click.option("--count", default=250, show_default=True, help="Prompts for each number of objects.")
@click.option("--seed", default=77, show_default=True)
@click.option("--grids", type=click.Path(path_type=Path), default=None, help="Folder for sample sheets (PNG).")
@click.option("--models", type=click.Path(path_type=Path), default=FOLDER, show_default=True)
def main(count: int, seed: int, grids: Path | None, models: Path) -> None:
    """Paint fresh prompts with every variant, score them, time the variants, and write measured.json and the cards."""
    scenes = fresh_scenes(count, seed)
    rng = np.random.default_rng(seed + 1)
    natural = [world.sample(rng) for _ in range(4 * count)]
    measured: dict[str, object] = {"machine": platform.processor() or platform.machine(), "seed": seed, "size": SIZE}
    variants, painted = {}, {}
    for name, setting in VARIANTS.items():
        painter = Painter(models / name, setting.steps, setting.guidance)
        pictures = paint_all(painter, scenes, seed * 1000, f"{name}, by objects")
        painted[name] = paint_all(painter, natural, seed * 1000, f"{name}, natural mix")
        reports = [facts.check(scene.caption, picture) for scene, picture in zip(scenes, pictures, strict=True)]
        variants[name] = {
            "steps": setting.steps,
            "guidance": setting.guidance,
            "size": SIZE,
            "load_s": round(painter.load_s, 2),
            "latency_ms": latency_ms(painter),
            **summary(reports, scenes),
        }
        if grids is not None:
            grids.mkdir(parents=True, exist_ok=True)
            grid(np.concatenate([pictures[n * count : n * count + 12] for n in range(4)]), 12).save(
                grids / f"{name}.png"
            )
    measured["variants"] = variants
    if (models / "discriminator" / "config.json").exists():
        discriminator = Discriminator.load(models / "discriminator")
        figures = judged(discriminator, natural, painted)
        measured["discriminator"] = {"latency_ms": judge_latency_ms(discriminator, painted["light"][0]), **figures}
    (models / "measured.json").write_text(json.dumps(measured, indent=2) + "\n")
    write_cards(models)
    click.echo(json.dumps({k: v for k, v in measured.items() if k != "discriminator"}, indent=1))


if __name__ == "__main__":
    main()
