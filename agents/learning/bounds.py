"""A discriminator's threshold with a promise: of the images it keeps, at most a share alpha is wrong.

Source: Learn then Test, Angelopoulos et al. 2021 (arXiv 2110.01052), with fixed-sequence testing in its fallback form
(Wiens and Dmitrienko 2005). Each candidate threshold t is a hypothesis "of images with a score of t or more, over
alpha are wrong", tested exactly (Clopper and Pearson 1934), from the highest down. The error delta is spent in equal
parts at a few starts along the way; what is spent passes on to the next candidate while tests reject, and is lost where
one does not. One start alone would mostly lose all of it at once: few images score that high, so nothing can be shown
of them. `bounds_of` makes a catalog's `Guarantee` of them, overall and by hardness band.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

from planner.catalog.guarantees import OVERALL, Guarantee, Promise
from schemas.errors import PochadeError

ALPHAS: Final = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""The ladder that guarantees are computed for: a request that asks for a share between two has the stricter one."""
DELTA: Final = 0.05

CANDIDATES = np.round(np.linspace(0.99, 0.0, 100), 2)  # a grid made from the same scores would void the promise
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
    ordered, right_ones = np.sort(scores), np.sort(scores[right])
    kept = len(ordered) - np.searchsorted(ordered, candidates)
    wrong = kept - (len(right_ones) - np.searchsorted(right_ones, candidates))
    chances = stats.binom.cdf(wrong, kept, alpha)  # of so few wrong or fewer, were a share alpha wrong
    begins = set(np.linspace(0, len(candidates), starts, endpoint=False).astype(int).tolist())
    level, found, at_level = 0.0, -1, 0.0
    for at, chance in enumerate(chances.tolist()):
        level += delta / starts if at in begins else 0.0
        if chance <= level:
            found, at_level = at, level
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
        bound=min(alpha, upper_bound(int(wrong[found]), int(kept[found]), at_level)),
    )


def bounds_of(
    level: str, discriminator: str, scores: np.ndarray | None, right: np.ndarray, hardness: np.ndarray,
    bounds: Sequence[float], *, standard: str, date: str, delta: float = DELTA, alphas: Sequence[float] = ALPHAS,
) -> Guarantee:  # fmt: skip
    """Return all that n judged images of a level promise, overall and by hardness band.

    scores float [n] are the discriminator's confidences as it serves; None for the level's own bound, of all its
    images (`discriminator` is "" then, and `alphas` are not used). right bool [n], hardness float [n] in [0, 1], and
    `bounds` of the bands, rising from 0 to 1. The rows at one alpha hold together: they share delta. `standard` says
    what right means, `date` is when they were judged, as 2026-11-29. The images must be drawn like those to be served,
    and have not been used to train or calibrate the discriminator. Each alpha is a statement of its own: one that a
    client chooses beforehand holds with confidence 1 - delta, one that is chosen by the table holds with less.

    Raises:
        PochadeError: values out of range, or of different images.
    """
    if not len(right) == len(hardness) == (len(right) if scores is None else len(scores)):
        raise PochadeError(f"right and hardness must be of the same images: got {len(right)} and {len(hardness)}")
    if (scores is None) != (not discriminator):
        raise PochadeError(f"scores must come with a discriminator: got {discriminator!r}; name it, or leave both out")
    bands = np.clip(np.searchsorted(bounds, hardness, side="right") - 1, 0, len(bounds) - 2)
    parts = [(OVERALL, np.ones(len(right), bool)), *((band, bands == band) for band in range(len(bounds) - 1))]
    rows, risk = list[Promise](), delta / len(parts)
    for band, mask in parts:
        if scores is None:
            rows += _own(right[mask], band, risk)
        else:
            rows += _ladder(scores[mask], right[mask], band, risk, alphas)
    return Guarantee(
        level=level, discriminator=discriminator, delta=delta, n=len(right), date=date, standard=standard,
        bounds=tuple(bounds), rows=tuple(rows),
    )  # fmt: skip


def _own(right: np.ndarray, band: int, delta: float) -> Iterator[Promise]:
    if len(right):
        bound = upper_bound(int((~right).sum()), len(right), delta)
        yield Promise(band=band, alpha=bound, bound=bound, n=len(right))


def _ladder(
    scores: np.ndarray, right: np.ndarray, band: int, delta: float, alphas: Sequence[float]
) -> Iterator[Promise]:
    for alpha in alphas if len(right) else ():
        found = keep_threshold(scores, right, alpha=alpha, delta=delta)
        if found is not None:
            yield Promise(
                band=band, alpha=alpha, threshold=found.value, kept_share=found.kept_share, bound=found.bound,
                n=len(right),
            )  # fmt: skip
