"""The twenty shapes, drawn once as vector art and reduced to antialiased masks of the sizes a scene uses."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from PIL import Image, ImageDraw

_GRID: Final = 144  # px of the drawing board: a multiple of 12, 18, 24 and 36

Board: TypeAlias = ImageDraw.ImageDraw
Points: TypeAlias = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Sprite:
    """Masks in [0, 1]: `alpha` [n, n] is how much of a pixel is covered, `detail` [n, n] how much of it is ink."""

    alpha: np.ndarray
    detail: np.ndarray


def _ellipse(board: Board, x0: float, y0: float, x1: float, y1: float, fill: int = 255) -> None:
    board.ellipse([x0 * _GRID, y0 * _GRID, x1 * _GRID - 1, y1 * _GRID - 1], fill=fill)


def _polygon(board: Board, points: Points, fill: int = 255) -> None:
    board.polygon([(x * _GRID, y * _GRID) for x, y in points], fill=fill)


def _box(board: Board, x0: float, y0: float, x1: float, y1: float, fill: int = 255) -> None:
    board.rectangle([x0 * _GRID, y0 * _GRID, x1 * _GRID - 1, y1 * _GRID - 1], fill=fill)


def _circle(shape: Board, _: Board) -> None:
    _ellipse(shape, 0.04, 0.04, 0.96, 0.96)


def _square(shape: Board, _: Board) -> None:
    _box(shape, 0.06, 0.06, 0.94, 0.94)


def _heart(shape: Board, _: Board) -> None:
    _ellipse(shape, 0.0, 0.06, 0.54, 0.60)
    _ellipse(shape, 0.46, 0.06, 1.0, 0.60)
    _polygon(shape, [(0.05, 0.46), (0.5, 0.30), (0.95, 0.46), (0.5, 1.0)])


def _star(shape: Board, _: Board) -> None:
    tips = [(0.55 if k % 2 == 0 else 0.26, math.pi * (k / 5 - 0.5)) for k in range(10)]
    _polygon(shape, [(0.5 + r * math.cos(a), 0.54 + r * math.sin(a)) for r, a in tips])


def _tree(shape: Board, ink: Board) -> None:
    _polygon(shape, [(0.5, 0.0), (0.86, 0.45), (0.14, 0.45)])
    _polygon(shape, [(0.5, 0.22), (1.0, 0.80), (0.0, 0.80)])
    for board in (shape, ink):
        _box(board, 0.38, 0.80, 0.62, 1.0)


def _moon(shape: Board, _: Board) -> None:
    _ellipse(shape, 0.02, 0.02, 0.98, 0.98)
    _ellipse(shape, 0.38, -0.06, 1.18, 0.78, fill=0)


def _fish(shape: Board, ink: Board) -> None:
    _ellipse(shape, 0.0, 0.20, 0.78, 0.80)
    _polygon(shape, [(0.58, 0.5), (1.0, 0.14), (1.0, 0.86)])
    _ellipse(ink, 0.14, 0.36, 0.28, 0.50)


def _ring(shape: Board, _: Board) -> None:
    _ellipse(shape, 0.02, 0.02, 0.98, 0.98)
    _ellipse(shape, 0.30, 0.30, 0.70, 0.70, fill=0)


def _house(shape: Board, ink: Board) -> None:
    _polygon(shape, [(0.5, 0.0), (1.0, 0.46), (0.0, 0.46)])
    _box(shape, 0.10, 0.46, 0.90, 1.0)
    _box(ink, 0.40, 0.64, 0.62, 1.0)


def _cross(shape: Board, _: Board) -> None:
    _box(shape, 0.34, 0.0, 0.66, 1.0)
    _box(shape, 0.0, 0.34, 1.0, 0.66)


def _cat(shape: Board, ink: Board) -> None:
    _ellipse(shape, 0.02, 0.22, 0.98, 1.0)
    _polygon(shape, [(0.04, 0.0), (0.44, 0.30), (0.04, 0.62)])
    _polygon(shape, [(0.96, 0.0), (0.56, 0.30), (0.96, 0.62)])
    _ellipse(ink, 0.22, 0.48, 0.38, 0.66)
    _ellipse(ink, 0.62, 0.48, 0.78, 0.66)


def _mushroom(shape: Board, ink: Board) -> None:
    shape.pieslice([0, 0, _GRID - 1, 1.16 * _GRID], 180, 360, fill=255)
    _box(shape, 0.34, 0.56, 0.66, 1.0)
    _ellipse(ink, 0.22, 0.24, 0.40, 0.42)
    _ellipse(ink, 0.58, 0.18, 0.76, 0.36)


def _boat(shape: Board, ink: Board) -> None:
    _polygon(shape, [(0.0, 0.66), (1.0, 0.66), (0.80, 1.0), (0.20, 1.0)])
    _polygon(shape, [(0.54, 0.0), (0.54, 0.58), (0.06, 0.58)])
    for board in (shape, ink):
        _box(board, 0.54, 0.0, 0.64, 0.66)


def _bolt(shape: Board, _: Board) -> None:
    _polygon(shape, [(0.52, 0.0), (0.92, 0.0), (0.66, 0.38), (0.94, 0.38), (0.26, 1.0), (0.44, 0.56), (0.12, 0.56)])


def _flower(shape: Board, ink: Board) -> None:
    for k in range(6):
        x, y = 0.5 + 0.29 * math.cos(k * math.pi / 3), 0.5 + 0.29 * math.sin(k * math.pi / 3)
        _ellipse(shape, x - 0.21, y - 0.21, x + 0.21, y + 0.21)
    for board in (shape, ink):
        _ellipse(board, 0.34, 0.34, 0.66, 0.66)


def _crown(shape: Board, ink: Board) -> None:
    teeth = [(0.0, 0.14), (0.26, 0.48), (0.5, 0.06), (0.74, 0.48), (1.0, 0.14)]
    _polygon(shape, [(0.04, 0.92), *teeth, (0.96, 0.92)])
    _box(ink, 0.06, 0.76, 0.94, 0.88)


def _drop(shape: Board, _: Board) -> None:
    _ellipse(shape, 0.14, 0.28, 0.86, 1.0)
    _polygon(shape, [(0.5, 0.0), (0.82, 0.50), (0.18, 0.50)])


def _arrow(shape: Board, _: Board) -> None:
    _polygon(shape, [(0.5, 0.0), (1.0, 0.52), (0.0, 0.52)])
    _box(shape, 0.34, 0.52, 0.66, 1.0)


def _key(shape: Board, _: Board) -> None:
    _ellipse(shape, 0.0, 0.22, 0.52, 0.78)
    _ellipse(shape, 0.17, 0.40, 0.35, 0.60, fill=0)
    _box(shape, 0.48, 0.42, 1.0, 0.60)
    _box(shape, 0.66, 0.58, 0.76, 0.80)
    _box(shape, 0.86, 0.58, 1.0, 0.86)


def _hourglass(shape: Board, _: Board) -> None:
    _box(shape, 0.06, 0.0, 0.94, 0.12)
    _box(shape, 0.06, 0.88, 0.94, 1.0)
    _polygon(shape, [(0.12, 0.10), (0.88, 0.10), (0.58, 0.5), (0.88, 0.90), (0.12, 0.90), (0.42, 0.5)])


_DRAWINGS: Final[dict[str, Callable[[Board, Board], None]]] = {
    "circle": _circle,
    "heart": _heart,
    "star": _star,
    "house": _house,
    "tree": _tree,
    "cat": _cat,
    "moon": _moon,
    "fish": _fish,
    "square": _square,
    "boat": _boat,
    "mushroom": _mushroom,
    "ring": _ring,
    "cross": _cross,
    "bolt": _bolt,
    "flower": _flower,
    "crown": _crown,
    "drop": _drop,
    "arrow": _arrow,
    "key": _key,
    "hourglass": _hourglass,
}


@cache
def sprite(shape: str, size: int) -> Sprite:
    """The masks of a shape at `size` px."""
    boards = [Image.new("L", (_GRID, _GRID)) for _ in range(2)]
    _DRAWINGS[shape](ImageDraw.Draw(boards[0]), ImageDraw.Draw(boards[1]))
    alpha, detail = (np.asarray(b.resize((size, size), Image.Resampling.BOX), np.float32) / 255 for b in boards)
    return Sprite(alpha, detail)
