"""One ridge-penalised logistic regression a level, its strength chosen by cross-validation inside the given prompts.

Labels may be shares in 0..1 and wrong in part: the penalty keeps the probabilities near what the labels support.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from scipy import optimize

from agents.learning.progress import Progress

STRENGTHS: Final = (1e5, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0)  # of the penalty, half the squared weights
FOLDS: Final = 5
_MOST_STEPS: Final = 300


class Heads(NamedTuple):
    """k regressions on d features of n prompts."""

    weights: np.ndarray  # [d, k]
    bias: np.ndarray  # [k]
    strengths: tuple[float, ...]  # chosen, one a level
    unseen: np.ndarray  # [n, k] predicted quality of each prompt by regressions that were fitted without it


def fit_heads(features: Any, quality: np.ndarray, seed: int, progress: Progress) -> Heads:
    """Fit the heads on features [n, d], an array or a sparse matrix with rows; quality [n, k], nan where not known.

    A level with fewer known prompts than the best known one has that one's logit as a feature without penalty, so that
    a few hundred labels suffice where levels fail at the same prompts. Raises ValueError for a level without a label.
    """
    known = ~np.isnan(quality)
    if not known.any(0).all():
        raise ValueError(f"each level needs labels: they have {known.sum(0).tolist()}")
    first = int(known.sum(0).argmax())
    fold = np.random.default_rng(seed).permutation(len(quality)) % FOLDS
    order = [first, *(level for level in range(quality.shape[1]) if level != first)]
    found: dict[int, _Fit] = {}
    for done, level in enumerate(order):
        alike = known[:, level].sum() == known[:, first].sum()
        found[level] = _fit(features, quality[:, level], fold, None if alike else found[first])
        progress((done + 1) / len(order))
    fits = [found[level] for level in range(len(order))]
    weights, bias = np.stack([each.weights for each in fits], 1), np.array([each.bias for each in fits])
    return Heads(weights, bias, tuple(each.strength for each in fits), np.stack([_sigmoid(f.unseen) for f in fits], 1))


class _Fit(NamedTuple):
    weights: np.ndarray  # [d]
    bias: float
    strength: float
    unseen: np.ndarray  # [n] logits without the prompt's own fold


def _fit(features: Any, target: np.ndarray, fold: np.ndarray, base: _Fit | None) -> _Fit:
    known = np.flatnonzero(~np.isnan(target))
    offset = np.zeros((len(target), 0)) if base is None else base.unseen[:, None]
    best, worse = (np.inf, 0.0, np.zeros(len(target))), 0
    starts = [np.zeros(features.shape[1] + 1 + offset.shape[1])] * FOLDS
    for strength in STRENGTHS:  # from the strongest, each beginning where the one before ended
        unseen = np.zeros(len(target))
        for held in range(FOLDS):
            out = fold == held
            starts[held] = _regression(features, offset, target, known[~out[known]], strength, starts[held])
            weights, free = np.split(starts[held], [features.shape[1]])
            unseen[out] = features[out] @ weights + offset[out] @ free[1:] + free[0]
        loss = float(_loss(unseen[known], target[known]))
        best, worse = ((loss, strength, unseen), 0) if loss < best[0] else (best, worse + 1)
        if worse == 2:  # weaker penalties only learn the labels' errors
            break
    start = np.zeros_like(starts[0])
    weights, free = np.split(_regression(features, offset, target, known, best[1], start), [features.shape[1]])
    bias = float(free[0])
    if base is not None:  # a linear function of a linear function
        weights, bias = weights + free[1] * base.weights, bias + float(free[1]) * base.bias
    return _Fit(weights, bias, best[1], best[2])


def _regression(
    features: Any, offset: np.ndarray, target: np.ndarray, rows: np.ndarray, strength: float, start: np.ndarray
) -> np.ndarray:
    """Weights [d] with penalty, then without it the bias and the weights of the offset [1 + m]."""
    x, y = features[rows], target[rows]
    free = np.column_stack([np.ones(len(rows)), offset[rows]])
    d = x.shape[1]

    def value(at: np.ndarray) -> tuple[float, np.ndarray]:
        weights, logits = at[:d], x @ at[:d] + free @ at[d:]
        apart = _sigmoid(logits) - y
        slope = np.concatenate([x.T @ apart + strength * weights, free.T @ apart])
        return float(_loss(logits, y) * len(y) + 0.5 * strength * weights @ weights), slope

    found = optimize.minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": _MOST_STEPS})
    return np.asarray(found.x)


def _loss(logits: np.ndarray, target: np.ndarray) -> Any:
    """Mean cross-entropy of shares."""
    return (np.logaddexp(0, logits) - target * logits).mean() if len(target) else np.inf


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * np.tanh(0.5 * logits) + 0.5)
