"""An evaluation on disk, so that its report can be rendered again without generating images.

A folder with `observations.json`, the tree with everything that is not an array, and `observations.npz`, the arrays
under the names by which the tree refers to them.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from agents.lab.evaluation.observations import Classifier, Evaluation, Judged, Level, Pair
from agents.lab.evaluation.statistics.hybrid import Hybrid
from agents.learning.bounds import Threshold
from agents.profiling.statistics.sweeps import Sweep
from schemas.errors import PochadeError

VERSION = 2
_TREE, _ARRAYS = "observations.json", "observations.npz"
_REFERENCE = "$array"  # no level or ranker is called that


def save(evaluation: Evaluation, folder: Path) -> None:
    """Write both files, making the folder."""
    arrays: dict[str, np.ndarray] = {}

    def replaced(value: Any, path: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[path] = value
            return {_REFERENCE: path}
        if isinstance(value, dict):
            return {key: replaced(inner, f"{path}/{key}" if path else key) for key, inner in value.items()}
        return value

    tree = {"version": VERSION, "evaluation": replaced(asdict(evaluation), "")}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _ARRAYS).open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    (folder / _TREE).write_text(json.dumps(tree, indent=1) + "\n")


def load(folder: Path) -> Evaluation:
    """Read what `save` wrote. Raises PochadeError for an unknown version, OSError where a file is missing."""
    tree = json.loads((folder / _TREE).read_text())
    if tree.get("version") != VERSION:
        raise PochadeError(f"{folder / _TREE} has version {tree.get('version')}, this is {VERSION}: evaluate again")
    with np.load(folder / _ARRAYS, allow_pickle=False) as file:
        arrays = dict(file)

    def restored(value: Any) -> Any:
        if isinstance(value, dict):
            return arrays[value[_REFERENCE]] if _REFERENCE in value else {k: restored(v) for k, v in value.items()}
        return value

    fields = restored(tree["evaluation"])
    return Evaluation(
        **fields
        | {
            "prompts": tuple(fields["prompts"]),
            "levels": _each(fields["levels"], Level),
            "classifiers": _each(fields["classifiers"], _classifier),
            "pairs": _each(fields["pairs"], _pair),
            "paint_over": _each(fields["paint_over"], Sweep),
            "reuse": _each(fields["reuse"], Sweep),
        }
    )


def _each(named: dict[str, Any], make: Callable[..., Any]) -> dict[str, Any]:
    return {name: make(**fields) for name, fields in named.items()}


def _classifier(**fields: Any) -> Classifier:
    return Classifier(**fields | {"levels": tuple(fields["levels"])})


def _pair(**fields: Any) -> Pair:
    return Pair(
        **fields
        | {
            "discriminators": _each(fields["discriminators"], Judged),
            "hybrid": Hybrid(**fields["hybrid"]),
            "thresholds": _each(fields["thresholds"], Threshold),
        }
    )
