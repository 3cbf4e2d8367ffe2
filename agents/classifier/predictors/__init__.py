"""Learned predictors of every level's quality, one kind a file; `open_predictor` imports only the one that it opens."""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from agents.models.saved import CONFIG
from schemas.errors import PochadeError, Unknown

KINDS: Final = {
    "family": "agents.models.predictor:Predictor",  # the shipped family's own text encoder; of folders without a kind
    "words": "agents.classifier.predictors.words:WordsPredictor",
}


class QualityPredictor(Protocol):
    """Predicts what every level makes of a prompt, of any text."""

    levels: tuple[str, ...]  # the fastest first

    def quality(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """Predicted quality of each prompt as {level: value in 0..1}."""


def open_predictor(folder: Path) -> QualityPredictor:
    """Open the predictor of a folder by the `kind` in its config.json. Raises PochadeError."""
    if not (folder / CONFIG).is_file():
        raise PochadeError(f"{folder} holds no {CONFIG}: train it, or name the folder it was trained into")
    kind = json.loads((folder / CONFIG).read_text()).get("kind", "family")
    if kind not in KINDS:
        raise Unknown("kind of classifier", kind, KINDS)
    module, _, name = KINDS[kind].partition(":")
    opened: QualityPredictor = getattr(importlib.import_module(module), name).load(folder)
    return opened
