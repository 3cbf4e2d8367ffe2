"""The quality of each level on each prompt: what classifiers are trained on.

An .npz file holds prompts, str [n]; levels, str [k]; quality, float [n, k], 1 where all facts of a prompt hold, else
0, nan where it was not generated or cannot be judged; facts, float [n, k], the share of them that hold, nan where
they were not read; and cost_ms, float [k], of one image. A level that reuses past images is named "heavy~k4". `write`
makes such files, and `pochade profile` NAME-quality.npz, whose costs are in NAME.json. Without costs, levels are the
fastest first.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from schemas.errors import PochadeError
from streams.parsing.profile import parse

_Rows = dict[tuple[str, int], dict[str, tuple[float, float]]]  # (prompt, its how manyth time here) -> level -> judged


class Calibration(NamedTuple):
    """n prompts on k levels, the fastest first; a prompt has the same row everywhere."""

    prompts: tuple[str, ...]
    levels: tuple[str, ...]
    quality: np.ndarray  # [n, k] 0..1; nan: not known
    facts: np.ndarray  # [n, k] 0..1, share of the facts that hold; nan: not known

    def of(self, levels: Sequence[str]) -> "Calibration":
        """The prompts that one of these levels was judged on, and these levels only."""
        columns = [self.levels.index(level) for level in levels]
        taken = Calibration(self.prompts, tuple(levels), self.quality[:, columns], self.facts[:, columns])
        return taken._where(~np.isnan(taken.quality).all(1))

    def complete(self) -> "Calibration":
        """The prompts that every level was judged on."""
        return self._where(~np.isnan(self.quality).any(1))

    def held_out(self) -> np.ndarray:
        """bool [n]: one prompt in four, by its text, so that none is taught in one file and tested in another."""
        return np.array([zlib.crc32(prompt.encode()) % 4 == 0 for prompt in self.prompts], bool)

    def _where(self, rows: np.ndarray) -> "Calibration":
        prompts = tuple(prompt for prompt, keep in zip(self.prompts, rows, strict=True) if keep)
        return Calibration(prompts, self.levels, self.quality[rows], self.facts[rows])

    def pair(self) -> tuple[str, str]:
        """(light, heavy): the fastest level and the one of the highest mean quality."""
        return self.levels[0], self.levels[int(np.nanmean(self.quality, 0).argmax())]


def read(folder: Path) -> Calibration:
    """Read all .npz files of a folder as one table, with one row for each prompt.

    Raises PochadeError: no file, an array that is missing or of another shape.
    """
    files = sorted(folder.glob("*.npz"))
    if not files:
        raise PochadeError(f"{folder} holds no .npz file: run `pochade profile`, or generate a calibration set")
    tables = [_read(file) for file in files]
    costs = {level: cost for levels, costs, _ in tables for level, cost in zip(levels, costs, strict=True)}
    levels = tuple(sorted(costs, key=lambda level: costs[level]))  # stable, so that unknown costs keep their order
    rows: _Rows = {}
    for _, _, judged in tables:
        for key, row in judged.items():
            rows.setdefault(key, {}).update(row)
    unknown = (np.nan, np.nan)
    return Calibration(
        tuple(prompt for prompt, _ in rows),
        levels,
        np.array([[row.get(level, unknown)[0] for level in levels] for row in rows.values()]),
        np.array([[row.get(level, unknown)[1] for level in levels] for row in rows.values()]),
    )


def _read(file: Path) -> tuple[list[str], list[float], _Rows]:
    with np.load(file, allow_pickle=False) as arrays:
        missing = {"prompts", "levels", "quality", "facts"} - set(arrays)
        if missing:
            raise PochadeError(f"{file} lacks {', '.join(sorted(missing))}: profile again")
        prompts, levels = [str(p) for p in arrays["prompts"]], [str(level) for level in arrays["levels"]]
        quality, facts = arrays["quality"], arrays["facts"]
        costs = [float(cost) for cost in arrays.get("cost_ms", _costs(file, levels))]
    shape = (len(prompts), len(levels))
    if not quality.shape == facts.shape == shape or len(costs) != len(levels):
        raise PochadeError(f"{file}: quality and facts must be {shape}: got {quality.shape}, {facts.shape}")
    rows: _Rows = {}
    times: dict[str, int] = {}
    for at, prompt in enumerate(prompts):
        times[prompt] = times.get(prompt, 0) + 1
        known = [column for column in range(len(levels)) if not np.isnan(quality[at, column])]
        rows[prompt, times[prompt]] = {levels[c]: (float(quality[at, c]), float(facts[at, c])) for c in known}
    return levels, costs, rows


def _costs(file: Path, levels: Sequence[str]) -> Sequence[float]:
    """From the profile beside the file, if it knows them all; else the levels' order."""
    profile = file.with_name(f"{file.stem.removesuffix('-quality')}.json")
    if profile.exists():
        known = parse(profile.read_text(), profile.name).levels
        if all(level in known for level in levels):
            return [known[level].latency_ms[1] for level in levels]
    return range(len(levels))


def write(file: Path, calibration: Calibration, cost_ms: Sequence[float]) -> None:
    """As `read` reads it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.asarray(value) for name, value in calibration._asdict().items()}
    with file.open("wb") as opened:
        np.savez_compressed(opened, allow_pickle=False, cost_ms=np.array(cost_ms, float), **arrays)
