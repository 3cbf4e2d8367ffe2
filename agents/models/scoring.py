"""How many pictures a threshold defers, and how sure a mean is; rankings are judged in `agents.evaluation.ranking`."""

import numpy as np


def deferral_curve(scores: np.ndarray, points: int = 21) -> list[dict[str, float]]:
    """f(t): share of pictures with a confidence below t, for evenly spaced t in 0..1."""
    thresholds = np.linspace(0, 1, points)
    return [{"threshold": round(float(t), 3), "deferred": round(float((scores < t).mean()), 4)} for t in thresholds]


def standard_error(shares: np.ndarray) -> float:
    """Of a mean."""
    return float(shares.std(ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else float("nan")
