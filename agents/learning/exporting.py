"""Writes the images of all levels as files, with a table for people to label them in."""

import csv
from pathlib import Path

from PIL import Image

from agents.learning.learning import Asked, by_time
from agents.profiling.generation.pool import GenerationPool
from agents.profiling.generation.sweeps import order


def export(asked: Asked, folder: Path) -> Path:
    """Generate every prompt on every level; write LEVEL-NUMBER.png and labels.csv, whose path is returned."""
    pool = GenerationPool(asked.out / ".cache", jobs=asked.jobs, devices=asked.devices)
    levels = by_time(asked.catalog)
    images = pool.generate({variant.name: order(variant, asked.prompts, judged_by="") for variant in levels})
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "labels.csv"
    with table.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["image", "level", "prompt", "right"])
        for variant in levels:
            for part in images[variant.name].stored().parts():
                for row, image in zip(part.rows, part.read(), strict=True):
                    name = f"{variant.name}-{row:05}.png"
                    Image.fromarray(image).save(folder / name)
                    rows.writerow([name, variant.name, asked.prompts.prompts[row], ""])
    return table
