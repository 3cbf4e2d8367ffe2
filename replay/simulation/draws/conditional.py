"""Reads a cascade's table for one image: its confidence at a rank, and its quality at that confidence."""

import numpy as np

from planner.catalog.bands import CascadeTable


def with_correlation(ranks: np.ndarray, others: np.ndarray, dice: np.ndarray, correlation: float) -> np.ndarray:
    """Return ranks in [0, 1) whose rank correlation with `others`, uniform in [0, 1], is `correlation` in [-1, 1].

    A share |correlation| of them, by dice in [0, 1), takes the other's rank, or what is left of 1; so that all stay
    uniform.
    """
    shared = others if correlation > 0 else 1 - others
    return np.where(dice < abs(correlation), np.minimum(shared, np.nextafter(1.0, 0.0)), ranks)


def inverse(table: CascadeTable, band: int, ranks: np.ndarray) -> np.ndarray:
    """The confidences at these ranks in [0, 1), so that a share f(t) of all lies below any t."""
    return np.asarray(np.interp(ranks, table.deferred[band], table.thresholds))


def at_confidence(table: CascadeTable, band: int, level: str, ranks: np.ndarray, mean: float) -> np.ndarray:
    """The expected quality of a level's images for prompts whose light image has these ranks of confidence.

    The means above (light, kept) and below (heavy, again) each threshold, taken apart into pieces between thresholds:
    over the prompts on the same side of any threshold they have those means again. `mean` where they are not known.
    """
    means = table.kept[band] if level == table.pair.light else table.again[band]
    below = np.array(table.deferred[band])
    weights = below - 1 if level == table.pair.light else below  # negative: what lies above, taken away as t rises
    known = np.array([np.nan if value is None else value for value in means])
    known[np.isclose(weights, 0)] = 0.0  # of no prompts
    if np.isnan(known).any():
        return np.full(len(ranks), mean)
    sums = known * weights
    width = np.diff(below)
    pieces = np.divide(np.diff(sums), width, out=np.full(len(width), mean), where=width > 1e-9)
    return np.asarray(pieces[np.clip(np.searchsorted(below, ranks, side="right") - 1, 0, len(pieces) - 1)])
