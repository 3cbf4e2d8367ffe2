"""Adapters (LoRA) on a base: read from their files, and fused into weights of their own beside the base's.

A combination is a set of tensors that stand in the place of the base's, which are never written:

    layer's weight = W                                 no adapters
                   = W + sum of weight * scale * B A   a combination, made once and kept while there is room

Going from one to another sets pointers, so that the base is the file's to the bit after any number of changes, and a
request with an adapter runs at the speed of one without. Source: LoRA, section 4.1 ("no additional inference latency").
"""

import pathlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch

from agents.engines import EngineFailed

PREFIX: Final = "unet."
DOWN, UP = ".lora_A.weight", ".lora_B.weight"


class LowRank(NamedTuple):
    """What an adapter adds to one layer: scale * up @ down."""

    down: torch.Tensor  # [rank, in] or [rank, in, k, k]
    up: torch.Tensor  # [out, rank] or [out, rank, 1, 1]
    scale: float

    def delta(self, like: torch.Tensor) -> torch.Tensor:
        """Return it as float32 [shape of the layer's weight]."""
        rank = len(self.down)
        product = self.up.float().reshape(len(self.up), rank) @ self.down.float().reshape(rank, -1)
        return product.mul_(self.scale).reshape(like.shape).to(like.device)


Layers = Mapping[str, LowRank]
"""Name of a module of the base -> what an adapter adds to its weight."""


def read_adapter(source: str, kind: Any, unet: torch.nn.Module) -> Layers:
    """Read an adapter in any format that the pipeline class `kind` reads.

    Raises:
        EngineFailed: it adapts what is not of this base, another part than the UNet, or not by low rank alone.
    """
    from diffusers.utils import convert_unet_state_dict_to_peft

    folder = pathlib.Path(source)
    place = (str(folder.parent), {"weight_name": folder.name}) if folder.is_file() else (source, {})
    state, alphas = kind.lora_state_dict(place[0], **place[1])
    if foreign := sorted(key for key in state if not key.startswith(PREFIX)):
        raise EngineFailed(f"adapter {source!r} adapts more than the UNet, which is not done in part: {foreign[0]}")
    alphas = {key.removeprefix(PREFIX).removesuffix(".alpha"): float(value) for key, value in (alphas or {}).items()}
    weights = convert_unet_state_dict_to_peft({key.removeprefix(PREFIX): value for key, value in state.items()})
    if unknown := sorted(key for key in weights if not key.endswith((DOWN, UP))):
        raise EngineFailed(f"adapter {source!r} is no plain LoRA: {unknown[0]}")
    names = sorted({key.removesuffix(DOWN).removesuffix(UP) for key in weights})
    layers = {name: _layer(source, name, weights, alphas) for name in names}
    own = dict(unet.named_modules())
    for name, layer in layers.items():
        weight = getattr(own.get(name), "weight", None)
        fits = weight is not None and len(layer.up) == len(weight) and layer.down[0].numel() == weight[0].numel()
        if not fits:
            raise EngineFailed(
                f"adapter {source!r} does not fit the base: layer {name!r} is missing or of another size"
            )
    return layers


def _layer(source: str, name: str, weights: Mapping[str, torch.Tensor], alphas: Mapping[str, float]) -> LowRank:
    if name + DOWN not in weights or name + UP not in weights:
        raise EngineFailed(f"adapter {source!r} is damaged: layer {name!r} has only one of its two matrices")
    down, up = weights[name + DOWN], weights[name + UP]
    return LowRank(down, up, alphas.get(name, float(len(down))) / len(down))


class Applied(NamedTuple):
    """An adapter of a combination."""

    name: str
    weight: float
    layers: Layers


Combination = tuple[tuple[str, float], ...]


class FusedWeights:
    """The weights of one base's UNet, with any combination of adapters in them. For one thread."""

    def __init__(self, unet: torch.nn.Module) -> None:
        modules = dict(unet.named_modules())
        self._modules = modules
        self._base: dict[str, torch.Tensor] = {}  # of layers that were ever adapted: the very tensors that were loaded
        self._sets: OrderedDict[Combination, dict[str, torch.Tensor]] = OrderedDict()  # the least recently used first
        self._current: Combination = ()

    @property
    def bytes(self) -> int:
        """The bytes of all combinations that are kept."""
        return sum(_bytes(tensors) for tensors in self._sets.values())

    @property
    def combinations(self) -> tuple[Combination, ...]:
        """Those that are kept, the least recently used first."""
        return tuple(self._sets)

    def apply(self, adapters: Sequence[Applied]) -> bool:
        """Put a combination in force; none: the base. Return whether it was made now."""
        wanted: Combination = tuple((each.name, each.weight) for each in adapters)
        if wanted == self._current:
            return False
        is_new = bool(wanted) and wanted not in self._sets
        if is_new:
            self._sets[wanted] = self._fused(adapters)
        tensors = self._sets.get(wanted, {})
        for name in self._sets.get(self._current, {}).keys() - tensors.keys():
            self._modules[name].weight.data = self._base[name]
        for name, tensor in tensors.items():
            self._modules[name].weight.data = tensor
        self._current = wanted
        if wanted:
            self._sets.move_to_end(wanted)
        return is_new

    def shrink(self, max_bytes: float) -> None:
        """Forget combinations beyond these bytes, the least recently used first, but not the one in force."""
        for combination in list(self._sets):
            if self.bytes <= max_bytes:
                return
            if combination != self._current:
                del self._sets[combination]

    @torch.no_grad()
    def _fused(self, adapters: Sequence[Applied]) -> dict[str, torch.Tensor]:
        names = {name for each in adapters for name in each.layers}
        tensors = {}
        for name in names:
            base = self._base.setdefault(name, self._modules[name].weight.data)
            added = sum(each.layers[name].delta(base).mul_(each.weight) for each in adapters if name in each.layers)
            fused = torch.empty_like(base)  # in the base's layout in memory
            tensors[name] = fused.copy_(base.float() + added)
        return tensors


def _bytes(tensors: Mapping[str, torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
