"""Learned predictors of every level's quality; `open_predictor` imports only the kind that it opens.

A package adds a kind by the entry-point group `pochade.classifiers`: a class whose `load(folder)` gives a
`QualityPredictor`. Its folder has config.json with the kind's name, and reference.json as `Fitted.save` writes it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from agents.models.saved import CONFIG
from schemas.errors import PochadeError
from schemas.extensions import Table

KINDS: Final = Table[Any](
    "kind of classifier",
    "pochade.classifiers",
    {
        "family": "agents.models.predictor:Predictor",  # the shipped family's; of folders without a kind
        "words": "agents.classifier.predictors.words:WordsPredictor",
        "encoder": "agents.classifier.predictors.pretrained:EncoderPredictor",
        "bert": "agents.classifier.predictors.pretrained:BertPredictor",
    },
)


class QualityPredictor(Protocol):
    """Predicts what every level makes of a prompt, of any text."""

    levels: tuple[str, ...]  # the fastest first

    def quality(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """Predicted quality of each prompt as {level: value in 0..1}."""


def open_predictor(folder: Path) -> QualityPredictor:
    """Open the predictor of a folder by the `kind` in its config.json. Raises PochadeError."""
    if not (folder / CONFIG).is_file():
        raise PochadeError(f"{folder} holds no {CONFIG}: train it, or name the folder it was trained into")
    opened: QualityPredictor = KINDS.load(json.loads((folder / CONFIG).read_text()).get("kind", "family")).load(folder)
    return opened
