"""Train discriminators that see the image only, on real against generated images."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from agents.lab.training.generators.networks.scene_batches import to_tensor
from agents.lab.training.loop import Loop, Stateful, descend, device, rate, scaled, set_rate
from agents.lab.world import renderer, scenes
from agents.models.judges.embedding import Embedding, Head
from agents.models.judges.network import EfficientNet, Whole
from agents.models.scorer import Scorer

STEPS: Final = 600  # of the EfficientNet
HEAD_STEPS: Final = 800  # of the head on embeddings
BATCH: Final = 96
HEAD_BATCH: Final = 256
RENDERINGS: Final = 8000  # true images for the head
_RATE = 2e-3
_SHIFT = 2  # px

Source = Callable[[np.random.Generator, int], np.ndarray]  # (rng, n) -> images, uint8 [n, 48, 48, 3]


def renderings(rng: np.random.Generator, count: int) -> np.ndarray:
    """True images of the natural mix, uint8 [n, 48, 48, 3]."""
    return np.stack([renderer.render(scenes.sample(rng), rng) for _ in range(count)])


def images_from(images: np.ndarray) -> Source:
    """A source that draws from these images with repetition."""
    return lambda rng, count: images[rng.integers(0, len(images), count)]


def _moved(rng: np.random.Generator, image: np.ndarray) -> np.ndarray:
    """Shift the image by up to two pixels: generated images are few and repeat often."""
    padded = np.pad(image, ((_SHIFT, _SHIFT), (_SHIFT, _SHIFT), (0, 0)), mode="edge")
    top, left = rng.integers(0, 2 * _SHIFT + 1, 2)
    return padded[top : top + image.shape[0], left : left + image.shape[1]]


def train_real(work: Path, name: str, real: Source, generated: Source, seed: int, steps: int = STEPS) -> Whole:
    """An EfficientNet for real against generated images; resumable."""
    torch.manual_seed(seed)
    where = device()
    network = EfficientNet().to(where)
    target = torch.arange(BATCH, device=where) < BATCH // 2

    def batch(rng: np.random.Generator) -> torch.Tensor:
        images = np.concatenate([real(rng, BATCH // 2), generated(rng, BATCH - BATCH // 2)])
        return to_tensor(np.stack([_moved(rng, image) for image in images])).to(where)

    _train(work, f"discriminator_{name}", network, batch, target.float(), seed, steps)
    return Whole(network.cpu())


def train_embedding(work: Path, scorer: Scorer, generated: np.ndarray, seed: int, steps: int = HEAD_STEPS) -> Embedding:
    """A head on the scorer's frozen image embedding, for renderings against generated images [n, 48, 48, 3]."""
    torch.manual_seed(seed)
    where = device()
    head = Head().to(where)
    true = renderings(np.random.default_rng([seed, 1 << 20]), scaled(RENDERINGS))
    real, fake = (torch.from_numpy(scorer.features(list(images))).to(where) for images in (true, generated))
    target = torch.arange(HEAD_BATCH, device=where) < HEAD_BATCH // 2

    def batch(rng: np.random.Generator) -> torch.Tensor:
        half = HEAD_BATCH // 2
        return torch.cat([real[rng.integers(0, len(real), half)], fake[rng.integers(0, len(fake), HEAD_BATCH - half)]])

    _train(work, "discriminator_embedding", head, batch, target.float(), seed, steps)
    return Embedding(scorer.image, head.cpu())


def _train(
    work: Path,
    name: str,
    network: nn.Module,
    batch: Callable[[np.random.Generator], torch.Tensor],
    target: torch.Tensor,
    seed: int,
    steps: int,
) -> None:
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=0.02)
    parts: dict[str, Stateful] = {"network": network, "optimizer": optimizer}
    loop = Loop(name=name, folder=work, steps=steps, batch=len(target), parts=parts)

    def step(index: int) -> torch.Tensor:
        logits = network(batch(np.random.default_rng([seed, index])))
        set_rate(optimizer, _RATE, rate(index, steps, warm_up=50))
        return descend(functional.binary_cross_entropy_with_logits(logits, target), optimizer)

    loop.run(step)
    network.eval()
    with torch.no_grad():
        fresh = network(batch(np.random.default_rng([seed, steps + 1_000_000])))
    accuracy = float(((fresh > 0) == (target > 0.5)).float().mean())
    loop.note(seed=seed, parameters=loop.size(network), told_apart=round(accuracy, 4))
