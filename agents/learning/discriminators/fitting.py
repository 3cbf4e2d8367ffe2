"""What the kinds of discriminators share when they are fitted: a held-out part, steps, the best epoch, a folder.

Labels are right or wrong, 1 or 0, or anything between, and may be wrong themselves: of the epochs, the one counts whose
scores, calibrated, predict the labels of the held-out part best.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from agents.learning.calibration import calibrate, confidence, deferral, figures
from agents.learning.progress import Progress, nothing
from agents.models.saved import save
from schemas.errors import PochadeError

CHUNK: Final = 128  # images that are judged at once
HELD_OUT: Final = 0.15  # share of the images that choose the epoch
MIN_IMAGES: Final = 20
ESCALATED: Final = 0.5  # share of the images that the recommended threshold sends on; a plan has its own
_SMOOTHED: Final = 0.05  # a label of 1 is taken for .95: it may be wrong


class Model(Protocol):
    """A discriminator's model that can be saved."""

    @property
    def kind(self) -> str: ...
    def logits(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor: ...
    def parts(self) -> Mapping[str, nn.Module]: ...
    def config(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted discriminator, not yet calibrated."""

    model: Model

    def logits(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> np.ndarray:
        """Return raw scores, float64 [n], of images uint8 [h, w, 3]; higher is better."""
        parts = [
            self.model.logits(list(images[at : at + CHUNK]), list(prompts[at : at + CHUNK])).double().numpy()
            for at in range(0, len(images), CHUNK)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def save(self, folder: Path, name: str, raw: np.ndarray, right: np.ndarray) -> tuple[float, float]:
        """Calibrate, and write a folder that `Discriminator.load` opens; return scale and shift of `confidence`.

        By raw scores [n] of images that it was not fitted on, and their labels [n] in 0..1. Below the threshold that it
        recommends, a confidence, an image is escalated.
        """
        scale, shift = calibrate(raw, right)
        confident = confidence(raw, scale, shift)
        config = {"name": name, "kind": self.model.kind, **self.model.config(), "scale": scale, "shift": shift}
        config |= {
            "threshold": float(np.quantile(confident, ESCALATED)), "deferral": deferral(confident),
            "calibrated_on": figures(confident, right > 0.5),
        }  # fmt: skip
        save(folder, config, self.model.parts())
        return scale, shift


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How long a network is fitted, and how fast."""

    epochs: int
    batch: int = 64
    rate: float = 1e-3
    decay: float = 0.05
    patience: int = 4  # epochs without a better one, after which it ends


def real_against_generated(
    real: Sequence[np.ndarray], generated: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[str], np.ndarray]:
    """Return images, empty prompts and labels for any kind that reads the image alone: 1 is real (DiffServe 3.2)."""
    images = [*real, *generated]
    return images, [""] * len(images), np.repeat([1.0, 0.0], [len(real), len(generated)])


def split(right: np.ndarray, prompts: Sequence[str], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to fit on and those held out, which have labels; images of one prompt are in one part.

    Raises PochadeError: too few labels, or all of one kind.
    """
    is_labelled = ~np.isnan(right)
    known = right[is_labelled]
    if len(known) < MIN_IMAGES or np.ptp(known) == 0:
        raise PochadeError(
            f"a discriminator is fitted on {MIN_IMAGES} labelled images or more, of which some are right and some "
            f"wrong: got {len(known)}, {known.mean() if len(known) else 0:.0%} right"
        )
    names = np.array([prompt or f"\0{row}" for row, prompt in enumerate(prompts)])
    of = np.unique(names, return_inverse=True)[1]
    is_held = np.random.default_rng([seed, 1]).random(len(names))[of] < HELD_OUT
    return np.flatnonzero(~is_held), np.flatnonzero(is_held & is_labelled)


def chunks(rows: np.ndarray) -> list[np.ndarray]:
    """Return rows [n] in parts that are judged at once."""
    return np.split(rows, range(CHUNK, len(rows), CHUNK))


def loss_of(logits: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of logits [n] and labels [n] that may be wrong."""
    return functional.binary_cross_entropy_with_logits(logits, right * (1 - 2 * _SMOOTHED) + _SMOOTHED)


def error_of(logits: np.ndarray, right: np.ndarray) -> float:
    """Return the mean squared error of logits [n], calibrated, as predictions of labels [n]."""
    return float(((confidence(logits, *calibrate(logits, right)) - right) ** 2).mean())


def descend(
    network: nn.Module,
    loss: Callable[[np.ndarray, np.random.Generator], torch.Tensor],
    held: Callable[[], float],
    rows: np.ndarray,
    schedule: Schedule,
    seed: int,
    progress: Progress = nothing,
) -> None:
    """Fit a network, which keeps the weights of its best epoch; those that it came with count as one.

    `loss(batch, rng)` is of the images of these rows, `held()` the error on those held out. The same seed gives the
    same weights on one thread of one device.
    """
    rng = np.random.default_rng([seed, 2])
    optimizer = torch.optim.AdamW(
        [weights for weights in network.parameters() if weights.requires_grad],
        schedule.rate,
        weight_decay=schedule.decay,
    )
    batches = max(1, len(rows) // schedule.batch)
    steps = schedule.epochs * batches
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, schedule.rate, total_steps=steps + 1, pct_start=0.2)
    best, since, kept = held(), 0, copy.deepcopy(network.state_dict())
    for _ in range(schedule.epochs):
        network.train()
        for batch in np.array_split(rng.permutation(rows), batches):
            optimizer.zero_grad()
            loss(batch, rng).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            rates.step()
            progress(rates.last_epoch / steps)
        network.eval()
        error, since = held(), since + 1
        if error < best:
            best, since, kept = error, 0, copy.deepcopy(network.state_dict())
        if since >= schedule.patience:
            break
    network.load_state_dict(kept)
    network.eval()
