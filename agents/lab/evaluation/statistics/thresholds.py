"""A discriminator's threshold with a promise: of the images it keeps, at most a share alpha is wrong.

Source: Learn then Test, Angelopoulos et al. 2021 (arXiv 2110.01052), with fixed-sequence testing in its fallback form
(Wiens and Dmitrienko 2005). Each candidate threshold t is a hypothesis "of images with a score of t or more, over
alpha are wrong", tested exactly (Clopper and Pearson 1934), from the highest down. The error delta is spent in equal
parts at a few starts along the way; what is spent passes on to the next candidate while tests reject, and is lost where
one does not. One start alone would mostly lose all of it at once: few images score that high, so nothing can be shown
of them.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from schemas.errors import PochadeError

CANDIDATES = np.linspace(0.99, 0.0, 100)  # fixed beforehand: a grid made from the same scores would void the promise
STARTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """With confidence 1 - delta over calibration sets, P(wrong | score >= value) is at most alpha."""

    value: float
    alpha: float
    delta: float
    kept: int  # calibration images with a score of `value` or more
    kept_share: float  # of the calibration set
    wrong_share: float  # of those kept
    bound: float  # the upper end for it at the level of the test that accepted this threshold; at most alpha


def upper_bound(wrong: int, kept: int, delta: float) -> float:
    """Return the exact bound of the true share at confidence 1 - delta, from `wrong` of `kept`; 1 if all are wrong."""
    return float(stats.beta.ppf(1 - delta, wrong + 1, kept - wrong)) if wrong < kept else 1.0


def keep_threshold(
    scores: np.ndarray,
    right: np.ndarray,
    *,
    alpha: float,
    delta: float = 0.05,
    candidates: np.ndarray = CANDIDATES,
    starts: int = STARTS,
) -> Threshold | None:
    """The lowest threshold that keeps the promise; None if these images do not show it for any.

    scores float [n] and right bool [n] are of calibration images: drawn like those to be judged, and used neither to
    train the discriminator nor to choose `candidates` [m], which fall. Raises PochadeError for values out of range.
    """
    if not 0 < alpha < 1 or not 0 < delta < 1:
        raise PochadeError(f"alpha and delta must lie between 0 and 1: got {alpha} and {delta}")
    if len(scores) != len(right):
        raise PochadeError(f"scores and right must be of the same images: got {len(scores)} and {len(right)}")
    if not 1 <= starts <= len(candidates) or (np.diff(candidates) >= 0).any():
        raise PochadeError(
            f"candidates must fall, and be at least as many as starts: got {len(candidates)} and {starts}"
        )
    kept = (scores >= candidates[:, None]).sum(1)
    wrong = ((scores >= candidates[:, None]) & ~right).sum(1)
    begins = set(np.linspace(0, len(candidates), starts, endpoint=False).astype(int).tolist())
    level, found, bound = 0.0, -1, 1.0
    for at, (k, w) in enumerate(zip(kept.tolist(), wrong.tolist(), strict=True)):
        level += delta / starts if at in begins else 0.0
        end = upper_bound(w, k, level) if level else 1.0
        if end <= alpha:
            found, bound = at, end
        else:
            level = 0.0
    if found < 0:
        return None
    return Threshold(
        value=float(candidates[found]),
        alpha=alpha,
        delta=delta,
        kept=int(kept[found]),
        kept_share=float(kept[found] / len(scores)),
        wrong_share=float(wrong[found] / kept[found]),
        bound=bound,
    )
