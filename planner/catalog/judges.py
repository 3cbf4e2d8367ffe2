"""What a catalog says of a judge of images: by which engine it is opened, and how its scores become confidences.

`agents.judges` opens them. Discriminators are judges with a threshold (`planner.catalog.entries`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from planner.catalog.validate import check_device, require

LEARNED: Final = "learned"  # a folder that says of what kind it is, with its own calibration
PROFILE: Final = "profile"  # draws confidences by requests, for load tests; it is no judge of images
UNBOUNDED: Final = ("clip-score", "reward")  # engines whose scores are no confidences as they are
PRETRAINED: Final = (*UNBOUNDED, "classifier")  # engines that load a model


@dataclass(frozen=True)
class Calibration:
    """confidence = sigmoid(scale * score + shift)."""

    scale: float  # > 0: a higher score is better
    shift: float

    def __post_init__(self) -> None:
        require(0 < self.scale < math.inf, "calibration.scale", self.scale, "> 0 and finite", "fit it again")
        require(math.isfinite(self.shift), "calibration.shift", self.shift, "finite", "fit it again")

    def confidence(self, score: float) -> float:
        """Return the confidence in [0, 1] that a score stands for; NaN for NaN."""
        logit = self.scale * score + self.shift
        return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0 if logit <= -700 else math.nan


class Floor(NamedTuple):
    """The least cosine of image and prompt by a CLIP, whatever else a judge says. Source: HADIS 3.3."""

    model: str  # a CLIP, as `Judge.model`
    least: float  # [-1, 1]; an image below has confidence 0


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A judge of images. `planner.catalog.engines.check_judge` refuses what its engine cannot do."""

    name: str
    engine: str  # by its name in `planner.catalog.engines`
    folder: str = ""  # of a learned one, relative to infra/
    model: str = ""  # of a pretrained one: a folder relative to infra/, or a Hugging Face id, OWNER/NAME@REVISION
    options: Mapping[str, Any] = field(default_factory=dict)  # the engine's own
    device: str = ""  # "cpu", "cuda", "cuda:1"; "": cuda where there is one, else cpu
    floor: Floor | None = None  # None: there is none
    calibration: Calibration | None = None  # None: scores are confidences as they are; of UNBOUNDED their sigmoid

    def __post_init__(self) -> None:
        check_device(self.device)

    def confidence(self, score: float) -> float:
        """Return the confidence that a score of this judge stands for; NaN where it stands for none."""
        if self.calibration is not None:
            return self.calibration.confidence(score)
        if self.engine in UNBOUNDED:
            return AS_IS.confidence(score)
        return score if 0 <= score <= 1 else math.nan


AS_IS: Final = Calibration(1.0, 0.0)
