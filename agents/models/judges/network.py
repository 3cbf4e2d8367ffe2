"""The image alone, by a network trained as a whole: is it right, or could it be a real one?

The architecture is a small EfficientNet of ours, one of timm's (EfficientNet-V2, ResNet-34), or an image classifier of
transformers (ViT). Source: DiffServe 3.2, 4.4 and figure 7 (confidence = probability of "real", which are true images
or those of the heavy model). We differ in that the confidence is calibrated.

It cannot know whether the image shows what was asked for: a flawless blue star is as real for "a red heart".
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
import torch
from torch import nn

from agents.models.judges.pixels import scaled
from agents.models.saved import Saved
from agents.world.layout import SIZE

OURS: Final = "small-efficientnet"

# (channels, kernel, stride, times wider inside)
_BLOCKS = ((24, 3, 1, 2), (40, 5, 2, 4), (40, 3, 1, 4), (64, 5, 2, 4), (64, 3, 1, 4), (64, 3, 1, 4))
_STEM, _LAST = 24, 128


class SqueezeExcite(nn.Module):
    """Weighs channels by what the image as a whole holds (Hu et al. 2018)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), nn.SiLU(), nn.Conv2d(squeezed, channels, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.weigh(x))


class MBConv(nn.Module):
    """Widen, look around channel by channel, weigh, narrow (Tan and Le 2019); skipped over where shapes allow."""

    def __init__(self, inner: int, outer: int, kernel: int, stride: int, wider: int) -> None:
        super().__init__()
        wide = inner * wider
        self.is_skipped = stride == 1 and inner == outer
        self.body = nn.Sequential(
            nn.Conv2d(inner, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.SiLU(),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.SiLU(),
            SqueezeExcite(wide, max(4, inner // 4)),
            nn.Conv2d(wide, outer, 1, bias=False),
            nn.BatchNorm2d(outer),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(x)
        return x + y if self.is_skipped else y


class EfficientNet(nn.Module):
    """A network of about 0.2 M parameters: images [n, 3, 48, 48] in -1..1 -> logits of "real" [n]."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, _STEM, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(_STEM),
            nn.SiLU(),
        ]
        inner = _STEM
        for outer, kernel, stride, wider in _BLOCKS:
            layers.append(MBConv(inner, outer, kernel, stride, wider))
            inner = outer
        layers += [nn.Conv2d(inner, _LAST, 1, bias=False), nn.BatchNorm2d(_LAST), nn.SiLU()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(_LAST, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.features(images)).squeeze(-1)
        return logits


class Whole:
    """A discriminator's model that sees the image only."""

    kind: Final = "network"

    def __init__(self, network: nn.Module, architecture: str | Mapping[str, Any] = OURS, side: int = SIZE) -> None:
        """`architecture`: OURS, or the configuration of an image classifier of transformers; `side`: px."""
        self.network, self._architecture, self._side = network.eval(), architecture, side

    @classmethod
    def load(cls, saved: Saved) -> Self:
        architecture = saved.config.get("architecture", OURS)
        return cls(saved.into("network", untrained(architecture)), architecture, saved.config.get("side", SIZE))

    def parts(self) -> Mapping[str, nn.Module]:
        """Return the parts to save for `load`."""
        return {"network": self.network}

    def config(self) -> dict[str, Any]:
        return {"architecture": self._architecture, "side": self._side}

    @torch.no_grad()
    def logits(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor:  # noqa: ARG002  by design
        """[n], above 0 for what seems right, or real."""
        where = next(self.network.parameters()).device
        return self(torch.from_numpy(scaled(images, self._side)).to(where)).cpu()

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """uint8 [n, side, side, 3] -> logits [n], of which gradients are taken."""
        out = self.network(images.permute(0, 3, 1, 2).float() / 127.5 - 1)
        logits: torch.Tensor = out if isinstance(out, torch.Tensor) else out.logits.squeeze(-1)
        return logits


def untrained(architecture: str | Mapping[str, Any]) -> nn.Module:
    """Return a network with random weights."""
    if architecture == OURS:
        return EfficientNet()
    assert isinstance(architecture, Mapping)
    from transformers import CONFIG_MAPPING, AutoModelForImageClassification

    config = CONFIG_MAPPING[architecture["model_type"]].from_dict(dict(architecture))
    network: nn.Module = AutoModelForImageClassification.from_config(config)
    return network
