"""Sheets of sample images for the report: some prompts on every level, and drafts refined from every step."""

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from agents.lab.evaluation.report.report import Grid
from agents.lab.world.styles import POSTER

_ZOOM, _GAP = 2, 2  # times, px


def sheet(rows: Sequence[np.ndarray]) -> Image.Image:
    """Images uint8 [n, h, w, 3] a row, enlarged with hard edges, on white."""
    widest = max(len(row) for row in rows)
    _, height, width, _ = rows[0].shape
    canvas = np.full((len(rows) * (height + _GAP) + _GAP, widest * (width + _GAP) + _GAP, 3), 255, np.uint8)
    for y, row in enumerate(rows):
        for x, tile in enumerate(row):
            top, left = y * (height + _GAP) + _GAP, x * (width + _GAP) + _GAP
            canvas[top : top + height, left : left + width] = tile
    image = Image.fromarray(canvas)
    return image.resize((image.width * _ZOOM, image.height * _ZOOM), Image.Resampling.NEAREST)


def of_levels(prompts: Sequence[str], objects: np.ndarray, images: Mapping[str, np.ndarray], each: int = 4) -> Grid:
    """A row a level, `each` prompts for every number of things; `images` are level -> uint8 [n, h, w, 3]."""
    columns = np.concatenate([np.flatnonzero(objects == number)[:each] for number in np.unique(objects)])
    return Grid(
        title="The same prompts on every level",
        image=sheet([shown[columns] for shown in images.values()]),
        alt=f"{len(images)} rows of {len(columns)} small images, the simplest prompts on the left",
        caption=f"Rows: {', '.join(images)}. Columns: {_numbered(prompts, columns)}",
    )


def of_steps(
    prompts: Sequence[str], rows: np.ndarray, drafts: np.ndarray, generated: Mapping[int, np.ndarray], blank: np.ndarray
) -> Grid:
    """The drafts of `rows`, refined from every step (step -> uint8 [m, h, w, 3]), and the images from noise."""
    started = [generated[k][rows] for k in sorted(generated, reverse=True)]
    steps = ", ".join(f"over it from step {k}" for k in sorted(generated, reverse=True))
    return Grid(
        title="Refining drafts that had a fact wrong",
        image=sheet([drafts[rows], *started, blank[rows]]),
        alt=f"{len(started) + 2} rows of {len(rows)} small images, from the draft to the image generated from noise",
        caption=f"Rows: the draft, {steps}, generated from noise. Columns: {_numbered(prompts, rows)}",
    )


def of_failures(prompts: Sequence[str], level: str, wrong: np.ndarray, images: np.ndarray, true: np.ndarray) -> Grid:
    """Draw the wrong images of `level` (rows int [m]) above true renderings."""
    return Grid(
        title=f"Where {level} has a fact wrong",
        image=sheet([images[wrong], true[wrong]]),
        alt=f"two rows of {len(wrong)} small images",
        caption=f"Rows: {level}, as the renderer draws it ({POSTER.name}). Columns: {_numbered(prompts, wrong)}",
    )


def _numbered(prompts: Sequence[str], rows: np.ndarray) -> str:
    return " ".join(f"({number}) {prompts[row]}" for number, row in enumerate(rows, 1))
