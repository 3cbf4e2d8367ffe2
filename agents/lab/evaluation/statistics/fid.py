"""Frechet distance between two sets of features: FID, on the scorer's features instead of Inception's.

Source: Heusel et al. 2017; the figure of DiffServe 5 and HADIS 5. We differ in the features, so that values compare
only with each other.

Small samples: the estimate is biased upwards, in the order of d^2/n for d features and n images, and differently for
each model (Chong and Forsyth 2020). Compare only sets of equal size, and read each beside `floor`, which two sets of
true renderings reach. A bootstrap repeats images and so adds the same bias again: its spread is reported, not its
location.
"""

import numpy as np
from scipy import stats

from agents.profiling.statistics.intervals import Resampling
from schemas.errors import PochadeError


def frechet_distance(features: np.ndarray, other: np.ndarray) -> float:
    """|m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)) of float [n, d] and [m, d]; 0 or above.

    With S = R'R by a QR decomposition, the last trace is the sum of the singular values of R1 R2': no square root of a
    product that rounding makes slightly indefinite. Raises PochadeError for fewer than two rows or unequal widths.
    """
    if features.ndim != 2 or other.ndim != 2 or features.shape[1] != other.shape[1]:
        raise PochadeError(f"features must be [n, d] of one d: got {features.shape} and {other.shape}")
    if min(len(features), len(other)) < 2:
        raise PochadeError(f"a covariance needs two images or more: got {len(features)} and {len(other)}")
    (mean, root), (other_mean, other_root) = _moments(features), _moments(other)
    spread = (root**2).sum() + (other_root**2).sum() - 2 * np.linalg.norm(root @ other_root.T, "nuc")
    return max(float(((mean - other_mean) ** 2).sum() + spread), 0.0)


def _moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    features = np.asarray(features, np.float64)
    mean = features.mean(0)
    return mean, np.linalg.qr((features - mean) / np.sqrt(len(features) - 1)).R


def standard_error(features: np.ndarray, other: np.ndarray, how: Resampling) -> float:
    """Spread of the distance over resampled images, both sets resampled; see the module for why no interval."""

    def distance(rows: np.ndarray, other_rows: np.ndarray) -> float:
        return frechet_distance(features[rows], other[other_rows])

    drawn = stats.bootstrap(
        (np.arange(len(features)), np.arange(len(other))),
        distance,
        vectorized=False,
        n_resamples=how.resamples,
        method="percentile",
        rng=np.random.default_rng(how.seed),
    )
    return float(drawn.standard_error)


def floor(true: np.ndarray) -> float:
    """Return the distance of true renderings [n, d]: their first half from their second; nan below four.

    It is measured at n/2 and so lies a little above a perfect model's at n.
    """
    half = len(true) // 2
    return frechet_distance(true[:half], true[half : 2 * half]) if half >= 2 else float("nan")
