"""Fits the kinds `encoder` and `bert` on a pretrained network of transformers, a folder or an id of the hub."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from agents.classifier.predictors.pretrained import (
    BERT,
    ENCODER,
    NETWORK,
    POOLINGS,
    BertPredictor,
    EncoderPredictor,
    Network,
    embedded,
    logits,
    open_network,
)
from agents.learning.classifiers.fitted import Fitted, check
from agents.learning.classifiers.heads import fit_heads
from agents.learning.progress import Progress, nothing
from schemas.errors import Unknown

BATCH: Final = 32
_HELD: Final = 5  # one prompt in so many chooses when to stop
_WARM: Final = 0.1  # of the steps, in which the rate rises


def fit_encoder(
    prompts: Sequence[str], quality: np.ndarray, levels: Sequence[str], seed: int, model: str,
    *, pooling: str = "mean", device: str = "", progress: Progress = nothing,
) -> Fitted:  # fmt: skip
    """Fit a regression a level on what a frozen encoder says of n prompts; the arguments are those of `fit_words`.

    `model`: a folder or OWNER/NAME@REVISION, such as a sentence encoder. Raises PochadeError as there, and where the
    model cannot be opened.
    """
    check(prompts, quality, levels)
    if pooling not in POOLINGS:
        raise Unknown("pooling", pooling, POOLINGS)
    network = open_network(AutoModel, model, device)
    said = embedded(network, prompts, pooling)
    mean, spread = said.mean(0), said.std(0) + 1e-6
    heads = fit_heads((said - mean) / spread, quality, seed, progress)
    weights = heads.weights / spread[:, None]
    kept = {"weights": weights.astype(np.float32), "bias": (heads.bias - mean @ weights).astype(np.float32)}
    config = {"kind": ENCODER, "encoder": model, "pooling": pooling, "levels": list(levels)}
    return Fitted(config, kept, EncoderPredictor(network, pooling, levels, kept), heads.unseen)


def fit_bert(
    prompts: Sequence[str], quality: np.ndarray, levels: Sequence[str], seed: int, model: str,
    *, epochs: int = 4, rate: float = 5e-5, device: str = "", progress: Progress = nothing,
) -> Fitted:  # fmt: skip
    """Fine-tune a network for sequence classification with one output a level; the arguments are those of `fit_words`.

    One prompt in five is held back; the epoch that predicts those best is kept. Source: ARGUS 4.1. `model`: a folder or
    OWNER/NAME@REVISION of the kind of BERT; `rate`: the highest of AdamW's. Raises PochadeError as `fit_encoder`.
    """
    check(prompts, quality, levels)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        options = {"num_labels": len(levels), "ignore_mismatched_sizes": True}
        network = open_network(AutoModelForSequenceClassification, model, device, **options)
        network.model.config.problem_type = "multi_label_classification"
        dice = np.random.default_rng(seed)
        held = dice.permutation(len(prompts)) % _HELD == 0
        taught = np.flatnonzero(~held) if len(prompts) >= 2 * _HELD else np.arange(len(prompts))
        chosen = np.flatnonzero(held)
        best = _tuned(network, prompts, quality, (taught, chosen), dice, epochs, rate, progress)
    network.model.load_state_dict(best)
    seen = 0.5 * np.tanh(0.5 * logits(network, [prompts[int(row)] for row in chosen])) + 0.5

    def write_network(folder: Path) -> None:
        network.model.save_pretrained(folder / NETWORK)
        network.tokenizer.save_pretrained(folder / NETWORK)

    config = {"kind": BERT, "levels": list(levels)}
    return Fitted(config, {}, BertPredictor(network, levels), seen, write_network)


def _tuned(
    network: Network, prompts: Sequence[str], quality: np.ndarray, rows: tuple[np.ndarray, np.ndarray],
    dice: np.random.Generator, epochs: int, rate: float, progress: Progress,
) -> dict[str, Any]:  # fmt: skip
    """The state of the epoch whose loss on the rows held back is the lowest."""
    taught, chosen = rows
    target, known = torch.from_numpy(np.nan_to_num(quality)).float(), torch.from_numpy(~np.isnan(quality)).float()
    weight = known * (known.sum(0).max() / known.sum(0)).sqrt()  # a label of a level with few counts for more
    network.model.requires_grad_(True)
    optimizer = torch.optim.AdamW(network.model.parameters(), lr=rate, weight_decay=0.01)
    steps = epochs * -(-len(taught) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min((at + 1) / (_WARM * steps + 1), (steps - at) / steps)
    )

    def loss(batch: np.ndarray) -> torch.Tensor:
        made = network.model(**network.tokens([prompts[int(row)] for row in batch])).logits.cpu()
        each = torch.nn.functional.binary_cross_entropy_with_logits(made, target[batch], reduction="none")
        return (each * weight[batch]).sum() / weight[batch].sum().clamp(min=1e-6)

    lowest, best = np.inf, dict[str, Any](network.model.state_dict())
    for _ in range(epochs):
        network.model.train()
        for batch in np.array_split(dice.permutation(taught), -(-len(taught) // BATCH)):
            optimizer.zero_grad()
            loss(batch).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            progress(schedule.last_epoch / steps)
        network.model.eval()
        with torch.inference_mode():
            parts = np.array_split(chosen, -(-len(chosen) // BATCH))
            found = float(np.mean([float(loss(part)) for part in parts]))
        if found < lowest:
            lowest, best = found, {name: each.clone() for name, each in network.model.state_dict().items()}
    network.model.requires_grad_(False)
    return best
