"""How good an image is: by the facts its prompt states, by a judge of the user's, by labels, or not judged at all.

| scorer | as an option | score of an image |
|---|---|---|
| "facts" | `facts` | 1 if all facts that the prompt states hold, as the installed world reads them, else 0 |
| "labels:FILE" | `labels:FILE` | as a CSV table of prompt, level and right has it; nan where it has none |
| a `Judge` | the name of a discriminator of the catalog | its score, on its own scale |
| a `Judge` | a folder or hub id of a CLIP in transformers' format | the cosine of image and prompt |
"""

import csv
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from agents.profiling import world
from agents.profiling.world import Marks
from planner.catalog.entries import Variant
from planner.catalog.judges import Judge
from planner.catalog.model import Catalog
from schemas.errors import PochadeError
from streams.shipped import INFRA

FACTS = "facts"
LABELS = "labels:"  # before the file of a CSV table
Scorer = str | Judge  # "": none
Score = Callable[[str, Sequence[str], np.ndarray], np.ndarray]
"""(level, prompts, uint8 images [n, h, w, 3]) -> scores [n]; nan: not judged."""


def judge(by: str, variant: Variant, captions: Sequence[str], images: np.ndarray) -> Marks:
    """Return what the images of a part are marked with when they are generated: uint8 [n, h, w, 3].

    "facts": as the installed world reads them. "": nan. Raises PochadeError where no world is installed.
    """
    if by == FACTS:
        return world.needed("judging images by facts needs").marks(variant, captions, images)
    unknown = np.full(len(captions), np.nan)
    return Marks(unknown, unknown, np.zeros((len(captions), len(kinds())), bool))


def kinds() -> tuple[str, ...]:
    """Kinds of facts that the installed world reads; none without one."""
    there = world.installed()
    return there.kinds if there else ()


def scorer_of(text: str, catalog: Catalog) -> Scorer:
    """Return the scorer that an option names."""
    if not text or text == FACTS or text.startswith(LABELS):
        return text
    if text in catalog.discriminators:
        return catalog.discriminators[text]
    return Judge(name=text, engine="clip-score", model=text)


def name_of(scorer: Scorer) -> str:
    """Return a scorer's name for people."""
    return scorer if isinstance(scorer, str) else f"{scorer.engine} {scorer.name}"


_open: dict[str, Score] = {}  # of this process, by identity: the last one


def open_scorer(scorer: Scorer) -> Score:
    """Open a scorer that is not "facts"; it is kept until another is opened.

    Raises PochadeError for a table or a judge that cannot be opened.
    """
    key = identity(scorer)
    if key not in _open:
        _open.clear()  # before the next one is loaded: two may not fit
        _open[key] = _opened(scorer)
    return _open[key]


def _opened(scorer: Scorer) -> Score:
    if isinstance(scorer, str):
        known = labels(scorer.removeprefix(LABELS))
        return lambda level, prompts, _images: np.array([known.get((each, level), np.nan) for each in prompts])
    from agents.judges import open_image_judge

    opened = open_image_judge(scorer)
    return lambda _level, prompts, images: np.array(opened.score(list(images), prompts), float)


def labels(file: str) -> Mapping[tuple[str, str], float]:
    """Return (prompt, level) -> the label in 0..1 of that image. Raises PochadeError for a table that has none."""
    try:
        with Path(file).open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.DictReader(lines) if (row.get("right") or "").strip()]
        known = {(row["prompt"], row["level"]): float(row["right"]) for row in rows}
    except (OSError, KeyError, ValueError) as error:
        raise PochadeError(f"{file}: {error!r}: give a CSV table with the columns prompt, level and right") from error
    if not known or not all(0 <= label <= 1 for label in known.values()):
        raise PochadeError(f"{file} must have a label from 0 to 1 in its column right: got {len(known)} labels")
    return known


def identity(scorer: Scorer) -> str:
    """Return what tells two scorers apart: their names, and what lies in the files that they name."""
    found = hashlib.sha256(repr(scorer).encode())
    if isinstance(scorer, str):
        places = [Path(scorer.removeprefix(LABELS))]
    else:
        places = [INFRA / each for each in (scorer.model, scorer.folder) if each]  # a whole path stays as it is
    for where in places:
        for file in sorted(where.rglob("*")) if where.is_dir() else [where]:
            if file.is_file() and (file == where or file.suffix in (".safetensors", ".json")):
                found.update(sha256_of(file).encode())
    return found.hexdigest()[:20]


def sha256_of(file: Path) -> str:
    """The sha-256 of a file, in hexadecimal; contents are read once for each time that it was changed."""
    return _sha256(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _sha256(file: Path, _changed_ns: int) -> str:
    with file.open("rb") as opened_file:
        return hashlib.file_digest(opened_file, "sha256").hexdigest()


def at_standard(scores: np.ndarray, standard: float) -> np.ndarray:
    """Return 1 for scores [n] of at least the standard, 0 for lower ones, nan for what was not judged."""
    return np.where(np.isnan(scores), np.nan, scores >= standard)
