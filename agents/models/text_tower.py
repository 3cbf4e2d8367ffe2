"""The family's text encoder without transformers: a CLIP text model of a few lines, to import and load in a moment."""

import torch
from torch import nn
from torch.nn import functional


class _Layer(nn.Module):
    """Pre-norm causal attention and a feed-forward with CLIP's quick GELU."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        q, k, v = (part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.up(self.norm2(x))
        out: torch.Tensor = x + self.down(y * torch.sigmoid(1.702 * y))
        return out


class TextTower(nn.Module):
    """Token ids [n, 40] -> token states [n, 40, 128], equal to CLIPTextModel's last hidden state."""

    def __init__(
        self, vocabulary: int, length: int, width: int = 128, inner: int = 384, layers: int = 2, heads: int = 4
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(length, width)
        self.layers = nn.ModuleList(_Layer(width, inner, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.token(ids) + self.place.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        out: torch.Tensor = self.norm(x)
        return out
