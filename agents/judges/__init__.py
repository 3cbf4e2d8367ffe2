"""Judges of images behind one port; `open_image_judge` imports only the one that it opens.

A judge gives scores, higher is better. As a discriminator of a catalog it gives confidences, by its calibration.
"""

import logging
import math
from collections.abc import Sequence
from typing import NoReturn, Protocol, runtime_checkable

import numpy as np

from planner.catalog.engines import JUDGES, check_judge, clip_of_floor
from planner.catalog.judges import PROFILE, Judge
from schemas.errors import PochadeError
from streams.shipped import INFRA

log = logging.getLogger(__name__)


class JudgeFailed(PochadeError):
    """A judge cannot be opened here, or has given no scores: what is wrong and what to do."""


class JudgeAway(PochadeError):
    """A judge in another place does not answer now; the same images may be judged later."""


@runtime_checkable
class ImageJudge(Protocol):
    """Scores images against their prompts, in batches. One call at a time, by any thread."""

    def score(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[float]:
        """Return a score for each pair, higher is better; the same alone and in any batch.

        Images are uint8 [h, w, 3] of any sizes. No images give no scores.

        Raises:
            JudgeAway: it is elsewhere, and does not answer now.
            JudgeFailed: it answered with something that is no scores.
        """


def open_image_judge(judge: Judge) -> ImageJudge:
    """Open a judge of images, as a catalog's discriminator names one.

    Raises:
        Unknown, InvalidCatalog: there is no engine of that name, or it has no such options.
        JudgeFailed: its model or its service cannot be used here.
    """
    check_judge(judge)
    try:
        opened = JUDGES.load(judge.engine)(judge)
    except PochadeError as error:
        if isinstance(error, JudgeFailed):
            raise
        raise JudgeFailed(f"judge {judge.name!r}: {error}") from error
    except Exception as error:  # whatever the libraries of models and the judges of others raise
        where = judge.model or judge.folder
        away = "" if not judge.model or (INFRA / where).is_dir() else "; it is no folder, and the hub did not give it"
        raise JudgeFailed(
            f"judge {judge.name!r}: engine {judge.engine!r} cannot open {where!r}: {error!r}{away}"
        ) from error
    if not isinstance(opened, ImageJudge):
        raise JudgeFailed(f"judge {judge.name!r}: engine {judge.engine!r} gave {type(opened)} without `score`")
    return opened


class ConfidentJudge:
    """A judge of images as a discriminator: its scores as confidences."""

    def __init__(self, judge: Judge) -> None:
        """Open it, and its floor's CLIP. Raises as `open_image_judge`."""
        self._judge, self._opened, clip = judge, open_image_judge(judge), clip_of_floor(judge)
        self._clip = None if clip is None else open_image_judge(clip)

    def confidences(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[float]:
        """Return the confidence in [0, 1] for each pair; NaN for a score that stands for none.

        Raises:
            JudgeAway: as `ImageJudge.score`.
            JudgeFailed: as there, and for another number of scores than of images.
        """
        scores = self._opened.score(images, prompts)
        if len(scores) != len(images):
            raise JudgeFailed(f"judge {self._judge.name!r} gave {len(scores)} scores for {len(images)} images")
        found = [self._judge.confidence(float(score)) for score in scores]
        if any(map(math.isnan, found)):
            log.warning("judge %r: no confidences, without a calibration: %s", self._judge.name, scores)
        if self._clip is not None and self._judge.floor is not None:
            cosines, least = self._clip.score(images, prompts), self._judge.floor.least
            found = [each if cosine >= least else 0.0 for each, cosine in zip(found, cosines, strict=True)]
        return found


def of_no_image(judge: Judge) -> NoReturn:
    """Raise JudgeFailed, as the engine `profile` draws confidences without an image."""
    raise JudgeFailed(f"judge {judge.name!r}: engine {PROFILE!r} judges no image: name another engine")
