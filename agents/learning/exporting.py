"""Writes the images of all levels as files, with a table for people to label them in."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from agents.learning.learning import Asked, by_time, orders_to_learn, parts_of
from agents.profiling.generation.orders import GeneratedImages
from agents.profiling.generation.pool import GenerationPool, work_ms
from agents.profiling.generation.sweeps import order


def export(asked: Asked, folder: Path) -> Path:
    """Generate the images that `learn` asks for; write LEVEL-NUMBER.png and labels.csv, whose path is returned.

    Images are kept by parts, and a part is known by all its prompts. So they are asked for in the same order as there,
    the prompts to learn from and then those held out, and learning from the labels generates nothing again.

    Raises PochadeError, EngineFailed.
    """
    parts, levels = parts_of(len(asked.prompts.prompts), asked.seed), by_time(asked.catalog)
    pool = GenerationPool(asked.out / ".cache", jobs=asked.jobs, devices=asked.devices)
    held_out = {variant.name: order(variant, asked.prompts.at(parts.test), judged_by="") for variant in levels}
    taught = pool.generate(
        orders_to_learn(asked, parts), later_ms=sum(work_ms(variant, len(parts.test)) for variant in levels)
    )
    tested = pool.generate(held_out)
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "labels.csv"
    with table.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["image", "level", "prompt", "right"])
        for name in (variant.name for variant in levels):
            written = [*_saved(folder, name, parts.taught, taught), *_saved(folder, name, parts.test, tested)]
            rows.writerows([file, name, asked.prompts.prompts[row], ""] for row, file in sorted(written))
    return table


def _saved(
    folder: Path, level: str, rows: np.ndarray, generated: Mapping[str, GeneratedImages]
) -> Iterator[tuple[int, str]]:
    """Write a level's images of the prompts `rows`, int [n]; yields the row and the name of each file."""
    for part in generated[level].stored().parts():
        for row, image in zip(rows[part.rows], part.read(), strict=True):
            name = f"{level}-{row:05}.png"
            Image.fromarray(image).save(folder / name)
            yield row, name
