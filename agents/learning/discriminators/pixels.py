"""Fits the kind `pixels`: words by a ridge regression, then a small network that matches drafts with prompts."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch.nn import functional

from agents.learning.calibration import calibrate
from agents.learning.discriminators.fitting import Fitted, Schedule, chunks, descend, error_of, loss_of, split
from agents.learning.progress import Progress, nothing
from agents.models.judges.pixels import BUCKETS, Network, Pixels, hashed, scaled
from agents.models.pretrained import device_named

SCHEDULE: Final = Schedule(epochs=12, batch=48, rate=2e-3, patience=4)
_RIDGES: Final = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
_MATCHING: Final = 0.3  # weight of matching drafts with prompts
_SWAPPED: Final = 0.15  # of drafts get another's prompt, for which they are wrong
_SHIFT: Final = 2  # px


def fit_pixels(
    images: Sequence[np.ndarray],
    prompts: Sequence[str],
    right: np.ndarray,
    seed: int = 0,
    device: str = "",
    progress: Progress = nothing,
    schedule: Schedule = SCHEDULE,
) -> Fitted:
    """Fit on images uint8 [n][h, w, 3] of prompts [n], of which `right` [n] are good: 0..1, nan where it is unknown.

    Images without a label teach which words look like what. Raises PochadeError for too few labels.
    """
    torch.manual_seed(seed)
    where = device_named(device)
    fitted, held = split(right, prompts, seed)
    network = Network().to(where)
    pixels, words = torch.from_numpy(scaled(images)).to(where), torch.from_numpy(hashed(prompts)).to(where)
    counted, known = words.cpu().numpy(), fitted[~np.isnan(right[fitted])]
    scores = _fit_words(network, counted, right, known)[held]
    scale, shift = calibrate(scores, right[held])
    _rescale(network, scale, shift)

    def held_error() -> float:
        with torch.no_grad():
            parts = [network(pixels[part], words[part]).cpu() for part in chunks(held)]
        return error_of(torch.cat(parts).numpy(), right[held])

    def loss(batch: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
        moved = torch.roll(pixels[batch], tuple(rng.integers(-_SHIFT, _SHIFT + 1, 2).tolist()), (1, 2))
        seen, asked = network.seen(moved), network.asked(words[batch])
        own = np.arange(len(batch))
        is_swapped = rng.random(len(batch)) < _SWAPPED
        partner = np.where(is_swapped, np.roll(own, 1), own)
        known = np.flatnonzero(is_swapped | ~np.isnan(right[batch]))
        of = batch[partner]
        logits = network.of_words(words[of]).detach() + network.comparison(seen, asked[partner], words[of])
        target = torch.from_numpy(np.where(is_swapped, 0.0, right[batch])[known]).float().to(where)
        agreed, same = network.agreement(seen, asked, words[batch]), torch.from_numpy(own).to(where)
        matching = functional.cross_entropy(agreed, same) + functional.cross_entropy(agreed.T, same)
        return (loss_of(logits[known], target) if len(known) else 0.0) + _MATCHING * matching

    descend(network, loss, held_error, fitted, schedule, seed, progress)
    _fit_words(network, counted, right, np.concatenate([known, held]))  # those held out have chosen the epoch
    _rescale(network, scale, shift)
    return Fitted(Pixels(network.cpu()))


def _fit_words(network: Network, words: np.ndarray, right: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Set the weights of words alone by a ridge regression; return its predictions of all labels, less their mean."""
    used = np.unique(words[words > 0])
    squares, products = np.zeros((len(used), len(used))), np.zeros(len(used))
    mean = _counts(words[fitted], used).mean(0)
    for part in np.split(fitted, range(1024, len(fitted), 1024)):
        counts = _counts(words[part], used) - mean
        squares += counts.T @ counts
        products += counts.T @ (right[part] - right[fitted].mean())
    weights = _ridge(squares, products, float(((right[fitted] - right[fitted].mean()) ** 2).sum()), len(fitted))
    with torch.no_grad():
        network.alone.weight.zero_()
        network.alone.weight[used, 0] = torch.from_numpy(weights).float().to(network.bias.device)
        network.bias[0] = -float(mean @ weights)
    parts = np.split(np.arange(len(words)), range(1024, len(words), 1024))
    return np.concatenate([(_counts(words[part], used) - mean) @ weights for part in parts])


def _rescale(network: Network, scale: float, shift: float) -> None:
    """Turn the predictions of words alone into logits."""
    with torch.no_grad():
        network.alone.weight.mul_(scale)
        network.bias.mul_(scale).add_(shift)


def _ridge(squares: np.ndarray, products: np.ndarray, total: float, count: int) -> np.ndarray:
    """Return the weights of the ridge with the least generalized cross-validation (Golub et al. 1979)."""
    values, vectors = np.linalg.eigh(squares)
    turned = vectors.T @ products
    values = values.clip(min=0)

    def error(ridge: float) -> float:
        left = total - float((turned**2 * (values + 2 * ridge) / (values + ridge) ** 2).sum())
        return left / (1 - (1 + float((values / (values + ridge)).sum())) / count) ** 2

    return np.asarray(vectors @ (turned / (values + min(_RIDGES, key=error))))


def _counts(words: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Buckets [n, w] -> how often each of the used ones [u] occurs, float [n, u]."""
    counts = np.zeros((len(words), BUCKETS), np.float32)
    np.add.at(counts, (np.arange(len(words))[:, None], words), 1.0)
    return counts[:, used]
