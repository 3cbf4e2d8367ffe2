"""Adapters (LoRA) on a base: read from their files, and fused into weights of their own beside the base's.

A combination is a set of tensors that stand in the place of the base's, which are never written:

    layer's weight = W                                 no adapters
                   = W + sum of weight * scale * B A   a combination, made once and kept while there is room

Going from one to another sets pointers, so that the base is the file's to the bit after any number of changes, and a
request with an adapter runs at the speed of one without. Source: LoRA, section 4.1 ("no additional inference latency").
"""

import pathlib
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
        up, down = (factor.to(like.device, torch.float32) for factor in (self.up, self.down))
        return (up.reshape(-1, rank) @ down.reshape(rank, -1)).mul_(self.scale).reshape(like.shape)


Layers = Mapping[str, LowRank]
"""Name of a module of the base -> what an adapter adds to its weight."""


def read_adapter(source: str | Mapping[str, torch.Tensor], kind: Any, where: str = "") -> Layers:
    """Read an adapter in any format that the pipeline class `kind` reads, from its file, folder or hub id, or tensors.

    `where`: what messages call it; "": the source. Raises EngineFailed: it adapts another part than the UNet, or not by
    low rank alone.
    """
    from diffusers.utils import convert_unet_state_dict_to_peft

    if isinstance(source, str):
        where, folder = where or source, pathlib.Path(source)
        place = (str(folder.parent), {"weight_name": folder.name}) if folder.is_file() else (source, {})
        state, alphas = kind.lora_state_dict(place[0], **place[1])
    else:
        state, alphas = kind.lora_state_dict(dict(source))
    if foreign := sorted(key for key in state if not key.startswith(PREFIX)):
        raise EngineFailed(f"adapter {where!r} adapts more than the UNet, which is not done in part: {foreign[0]}")
    alphas = {key.removeprefix(PREFIX).removesuffix(".alpha"): float(value) for key, value in (alphas or {}).items()}
    weights = convert_unet_state_dict_to_peft({key.removeprefix(PREFIX): value for key, value in state.items()})
    if unknown := sorted(key for key in weights if not key.endswith((DOWN, UP))):
        raise EngineFailed(f"adapter {where!r} is no plain LoRA: {unknown[0]}")
    names = sorted({key.removesuffix(DOWN).removesuffix(UP) for key in weights})
    return {name: _layer(where, name, weights, alphas) for name in names}


def check_fits(name: str, layers: Layers, unet: torch.nn.Module) -> None:
    """Raise EngineFailed for an adapter of another base: of layers that the UNet has not, or has in another size."""
    own = dict(unet.named_modules())
    for layer_name, layer in layers.items():
        weight = getattr(own.get(layer_name), "weight", None)
        fits = weight is not None and len(layer.up) == len(weight) and layer.down[0].numel() == weight[0].numel()
        if not fits:
            raise EngineFailed(
                f"adapter {name!r} does not fit the base: layer {layer_name!r} is missing or of another size"
            )


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


def combination(adapters: Sequence[Applied]) -> Combination:
    """Return the adapters of a combination with their weights."""
    return tuple((each.name, each.weight) for each in adapters)


class FusedWeights:
    """The weights of one base's UNet, with any combination of adapters in them. For one thread.

    Which combinations stay is decided elsewhere: `forget` lets go of one.
    """

    def __init__(self, unet: torch.nn.Module) -> None:
        self._unet, self._modules = unet, dict(unet.named_modules())
        self._base: dict[str, torch.Tensor] = {}  # of layers that were ever adapted: the very tensors that were loaded
        self._sets: dict[Combination, dict[str, torch.Tensor]] = {}
        self._current: Combination = ()

    @property
    def bytes(self) -> int:
        """The bytes of all combinations that are kept."""
        return sum(_bytes(tensors) for tensors in self._sets.values())

    @property
    def combinations(self) -> frozenset[Combination]:
        """Those that are kept."""
        return frozenset(self._sets)

    def bytes_of(self, adapters: Sequence[Applied]) -> int:
        """Return the bytes that a combination fills. Raises EngineFailed for an adapter of another base."""
        for each in adapters:
            check_fits(each.name, each.layers, self._unet)
        weights = [self._modules[name].weight for name in {name for each in adapters for name in each.layers}]
        return sum(weight.numel() * weight.element_size() for weight in weights)

    def fuse(self, adapters: Sequence[Applied]) -> None:
        """Make a combination, unless it is kept. Raises EngineFailed for an adapter of another base."""
        wanted = combination(adapters)
        if wanted and wanted not in self._sets:
            for each in adapters:
                check_fits(each.name, each.layers, self._unet)
            self._sets[wanted] = self._fused(adapters)

    def apply(self, wanted: Combination) -> None:
        """Put a combination in force that was fused; (): the base."""
        if wanted == self._current:
            return
        tensors = self._sets[wanted] if wanted else {}
        for name in self._sets.get(self._current, {}).keys() - tensors.keys():
            self._modules[name].weight.data = self._base[name]
        for name, tensor in tensors.items():
            self._modules[name].weight.data = tensor
        self._current = wanted

    def forget(self, known: Combination) -> None:
        """Let go of a combination; where it is in force, the base is from now on."""
        if known == self._current:
            self.apply(())
        self._sets.pop(known, None)

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
