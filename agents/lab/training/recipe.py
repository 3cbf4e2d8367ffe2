"""What a target takes here: the steps that may have to run, and the shipped parts that stand in for forerunners."""

import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.lab.training.plan import SHIPPED, Folders, Step, steps_of, writer_of

READER: Final = "work/caption_reader.safetensors"
_READER_PART: Final = "reader."  # what its weights are called in a discriminator that holds it


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps in any order, and artefact -> shipped file or folder to copy first."""

    steps: tuple[Step, ...]
    copies: dict[str, Path]


def recipe(target: str, folders: Folders, shipped: Path) -> Recipe:
    """The target's own steps; for what they need: what is there, else a shipped part, else the step that writes it."""
    chosen = {step.name: step for step in steps_of(target)}
    copies: dict[str, Path] = {}
    waiting = deque(chosen.values())
    while waiting:
        for artefact in waiting.popleft().needs:
            writer = writer_of(artefact)
            if writer.name in chosen or folders.path(artefact).exists():
                continue
            if source := _shipped(artefact, shipped):
                copies[artefact] = source
            else:
                chosen[writer.name] = writer
                waiting.append(writer)
    return Recipe(tuple(chosen.values()), copies)


def copy_parts(copies: dict[str, Path], folders: Folders, say: Callable[[str], None]) -> None:
    """Put the shipped parts where the steps look for them."""
    for artefact, source in copies.items():
        target = folders.path(artefact)
        say(f"{artefact} as shipped in {source}")
        target.parent.mkdir(parents=True, exist_ok=True)
        if artefact == READER:
            _extract_reader(source, target)
        else:
            shutil.copytree(source, target)


def _shipped(artefact: str, shipped: Path) -> Path | None:
    if artefact == READER:
        return _with_reader(shipped)
    root, _, rest = artefact.partition("/")
    inside = rest if root == "models" else SHIPPED.get(artefact, "")
    return shipped / inside if inside and (shipped / inside).is_dir() else None


def _with_reader(shipped: Path) -> Path | None:
    """A shipped file that holds the caption reader beside other weights."""
    from safetensors import safe_open

    for path in sorted(shipped.rglob("model.safetensors")):
        with safe_open(path, "pt") as weights:
            if any(key.startswith(_READER_PART) for key in weights.keys()):  # noqa: SIM118 - not a dict
                return path
    return None


def _extract_reader(source: Path, target: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(source)
    save_file({k.removeprefix(_READER_PART): v for k, v in weights.items() if k.startswith(_READER_PART)}, target)
