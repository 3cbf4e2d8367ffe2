"""What has been trained in a work folder: which steps are finished, which can go on, which must begin again."""

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.lab.training.plan import Folders, Step
from schemas.errors import PochadeError


@dataclass(frozen=True, slots=True)
class Ledger:
    """Reads and writes `<work>/<step>.json`, where the training loop also notes its figures."""

    folders: Folders
    seed: int  # added to the seed of each step, a thousand at a time
    scale: float  # share of the steps and images to train for

    def seed_of(self, step: Step) -> int:
        return step.seed + 1000 * self.seed

    def is_finished(self, step: Step) -> bool:
        """Whether its artefacts are there, from this seed and the present inputs, on this scale or larger.

        A step run by hand counts: its loop leaves a note, but without the hashes of its inputs.

        Raises:
            PochadeError: it was trained with another seed, which training again would overwrite.
        """
        note = self.note(step)
        if not note or not self._is_same(step, note) or not note.get("is_finished", True):
            return False
        return float(note.get("scale", 1.0)) >= self.scale and all(map(self.has, step.writes))

    def can_go_on(self, step: Step) -> bool:
        """Whether its files in the work folder were made from the same inputs, so that its checkpoint can be used."""
        note = self.note(step)
        return self._is_same(step, note) and float(note.get("scale", self.scale)) == self.scale

    def has(self, artefact: str) -> bool:
        """Whether its file or folder is there."""
        return self.folders.path(artefact).exists()

    def note(self, step: Step) -> dict[str, Any]:
        """Return the note of a step; empty if it never ran."""
        path = self._path(step)
        content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return content

    def begin(self, step: Step) -> None:
        """Note that it runs, and on what."""
        self._add(step, is_finished=False, seed=self.seed_of(step), scale=self.scale, made_from=self._inputs(step))

    def end(self, step: Step, minutes: float) -> None:
        """Note that its artefacts are there."""
        self._add(step, is_finished=True, seed=self.seed_of(step), minutes=round(minutes, 1))

    def forget(self, step: Step) -> None:
        """Remove its notes, checkpoints and caches; the artefacts stay until new ones replace them."""
        for stem in (step.name, *step.traces):
            for suffix in ("json", "checkpoint", "npz"):
                for path in self.folders.work.glob(f"{stem}.{suffix}"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _is_same(self, step: Step, note: dict[str, Any]) -> bool:
        seed = note.get("seed", self.seed_of(step))
        if seed != self.seed_of(step):
            raise PochadeError(
                f"{step.name} in {self.folders.work} was trained with seed {seed}, not {self.seed_of(step)}: name "
                "another --work folder, or replace it with --again"
            )
        made_from = note.get("made_from")
        return made_from is None or made_from == self._inputs(step)

    def _inputs(self, step: Step) -> dict[str, str]:
        return {artefact: fingerprint(self.folders.path(artefact)) for artefact in step.needs if self.has(artefact)}

    def _path(self, step: Step) -> Path:
        return self.folders.work / f"{step.name}.json"

    def _add(self, step: Step, **facts: object) -> None:
        self.folders.work.mkdir(parents=True, exist_ok=True)
        self._path(step).write_text(json.dumps(self.note(step) | facts, indent=2) + "\n")


def fingerprint(path: Path) -> str:
    """A hash of a file, or of all files of a folder but its model cards."""
    digest = hashlib.sha256()
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        if file.suffix != ".md":
            digest.update(str(file.relative_to(path)).encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]
