"""The outcome of every level on each calibration prompt, for oracles, simulations and training of classifiers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planner.catalog.validate import require

_REMEASURE = "measure again with `pochade profile`"
_OPTIONAL = ("strategies", "classes")  # arrays that a profile may lack


@dataclass(frozen=True, kw_only=True, eq=False)
class PromptTable:
    """n prompts on k levels; a prompt has the same row everywhere."""

    prompts: tuple[str, ...]
    seeds: np.ndarray  # int [n], of the noise each level began with
    hardness: np.ndarray  # [n] 0..1
    levels: tuple[str, ...]  # "heavy~k4": begun at step 4 from the nearest stored neighbour's image
    cost_ms: np.ndarray  # [k] of one image
    quality: np.ndarray  # [n, k] 1 where all stated facts hold, else 0, or a CLIPScore; nan: not judged
    facts: np.ndarray  # [n, k] share of the stated facts that hold; nan where not judged by facts
    judged: tuple[str, ...]  # c cascades, each as "discriminator: light > heavy"
    confidence: np.ndarray  # [n, c] in light's image; nan: no such discriminator here
    over_rows: np.ndarray  # int [m], prompts whose draft the first cascade's heavy level refined
    over_k: np.ndarray  # int [p], from which steps
    over_quality: np.ndarray  # [m, p]
    strategies: tuple[str, ...] = ()  # s strategies whose class the catalog's classifiers predict; (): not recorded
    classes: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), str))  # str [n, s], as they predict it

    def of(self, level: str) -> np.ndarray:
        """Quality [n] on one level."""
        require(level in self.levels, "level", level, f"one of {', '.join(self.levels)}", _REMEASURE)
        return np.asarray(self.quality[:, self.levels.index(level)])


def prompt_table(arrays: Mapping[str, np.ndarray], file: str) -> PromptTable:
    """Build the table from the arrays of NAME-quality.npz; errors name `file`.

    Raises InvalidCatalog for an array that is missing, of another shape or out of range.
    """
    where = f"profile {file}"
    named = {key: _present(arrays, key, where) for key in PromptTable.__dataclass_fields__ if key not in _OPTIONAL}
    named |= {key: np.asarray(arrays[key]) for key in _OPTIONAL if all(other in arrays for other in _OPTIONAL)}
    n, k, c = (len(named[key]) for key in ("prompts", "levels", "judged"))
    m, p = len(named["over_rows"]), len(named["over_k"])
    shares = ("hardness", "quality", "facts", "confidence", "over_quality")
    shapes = {
        "seeds": (n,), "hardness": (n,), "cost_ms": (k,), "quality": (n, k), "facts": (n, k), "confidence": (n, c),
        "over_quality": (m, p),
    }  # fmt: skip
    if "classes" in named:
        shapes["classes"] = (n, len(named["strategies"]))
    for key, shape in shapes.items():
        require(named[key].shape == shape, f"{where}: {key}", named[key].shape, f"of shape {shape}", _REMEASURE)
    for key in shares:
        known = named[key][~np.isnan(named[key])]
        require(bool(((known >= 0) & (known <= 1)).all()), f"{where}: {key}", known, "in [0, 1]", _REMEASURE)
    rows = named["over_rows"]
    require(bool(((rows >= 0) & (rows < n)).all()), f"{where}: over_rows", rows, f"rows of {n} prompts", _REMEASURE)
    words: list[str] = [key for key in ("prompts", "levels", "judged", "strategies") if key in named]
    texts = {key: tuple(str(text) for text in named[key]) for key in words}
    floats = {key: named[key].astype(np.float64) for key in shares}
    values: dict[str, Any] = {**named, **floats, **texts}
    return PromptTable(**values)


def _present(arrays: Mapping[str, np.ndarray], key: str, where: str) -> np.ndarray:
    require(key in arrays, f"{where}: {key}", None, "there", _REMEASURE)
    return np.asarray(arrays[key])
