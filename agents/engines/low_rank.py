"""Adapters (LoRA) on a base: read from their files, and fused into weights of their own beside the base's.

A combination is a set of tensors that stand in the place of the base's, which are never written:

    layer's weight = W                                 no adapters
                   = W + sum of weight * scale * B A   a combination, made once and kept while there is room

Going from one to another sets pointers, so that the base is the file's to the bit after any number of changes, and a
request with an adapter runs at the speed of one without. Source: LoRA, section 4.1 ("no additional inference latency").
"""

import inspect
import json
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from safetensors import safe_open

from agents.engines import CannotGenerate
from agents.engines.families import PARTS

DOWN, UP = ".lora_A.weight", ".lora_B.weight"
FIELD: Final = "adapters"  # of a request
NOTE: Final = "lora_adapter_metadata"  # in a file's header: what its rank and alpha are, by diffusers


class LowRank(NamedTuple):
    """What an adapter adds to one layer: scale * up @ down."""

    down: torch.Tensor  # [rank, in] or [rank, in, k, k]
    up: torch.Tensor  # [out, rank] or [out, rank, 1, 1]
    scale: float

    def delta(self, like: torch.Tensor, weight: float = 1.0) -> torch.Tensor:
        """Return it, times a weight, as float32 [shape of the layer's weight]."""
        rank = len(self.down)
        up, down = (factor.to(like.device, torch.float32) for factor in (self.up, self.down))
        return (up.reshape(-1, rank) @ down.reshape(rank, -1)).mul_(self.scale * weight).reshape(like.shape)


Layers = Mapping[str, LowRank]
"""Part and name of a module of the base ("unet.mid_block.attentions.0.proj_in") -> what is added to its weight."""


def networks_of(pipeline: Any) -> dict[str, torch.nn.Module]:
    """Return the parts of a pipeline that adapters change, by name: the denoiser and the text encoders."""
    parts = {name: part for name, part in pipeline.components.items() if isinstance(part, torch.nn.Module)}
    return {name: part for name, part in parts.items() if name in PARTS or name.startswith("text_encoder")}


def read_adapter(
    source: str | Mapping[str, torch.Tensor], pipeline: Any, where: str = "", note: str | None = None
) -> Layers:
    """Read an adapter in any format that the class of a pipeline reads, from its file, folder or hub id, or tensors.

    `where`: what messages call it; "": the source. `note`: what a file of these tensors has under NOTE. Raises
    CannotGenerate: it adapts what the pipeline has not, or not by low rank alone; else the libraries' own errors.
    """
    where = where or str(source)
    if magnitudes := [key for key in _keys_of(source) if "dora_scale" in key]:  # which diffusers leaves out
        raise CannotGenerate(f"adapter {where!r} is no plain LoRA: {min(magnitudes)}", FIELD)
    state, alphas, config = _state_of(source, pipeline)
    layers, left = {}, set(state)
    for part in networks_of(pipeline):
        weights = _in_peft_format(part, state)
        if unknown := sorted(key for key in weights if not key.endswith((DOWN, UP))):
            raise CannotGenerate(f"adapter {where!r} is no plain LoRA: {part}.{unknown[0]}", FIELD)
        scales = _Alphas(_in_peft_format(part, alphas), part, config if note is None else json.loads(note))
        for name in sorted({key.removesuffix(DOWN).removesuffix(UP) for key in weights}):
            layers[f"{part}.{_plain(name)}"] = _layer(where, name, weights, scales)
        left -= {key for key in left if key.startswith(f"{part}.")}
    if left or not layers:
        raise CannotGenerate(
            f"adapter {where!r} has keys that {type(pipeline).__name__} does not read, and none is left out: "
            f"{min(left, default='it has none')}", FIELD,
        )  # fmt: skip
    return layers


def _keys_of(source: str | Mapping[str, torch.Tensor]) -> Iterable[str]:
    """Return the names of an adapter's tensors as its file has them; of a folder or hub id none."""
    if not isinstance(source, str):
        return source.keys()
    if not pathlib.Path(source).is_file():
        return ()
    with safe_open(source, framework="pt") as file:
        return tuple(file.keys())


def _state_of(source: str | Mapping[str, torch.Tensor], pipeline: Any) -> tuple[Any, Any, Any]:
    """Return an adapter's tensors by diffusers' names, its alphas by layer, and the options that it was made with."""
    read: Any = getattr(type(pipeline), "lora_state_dict", None)
    if read is None:
        raise CannotGenerate(f"diffusers applies no adapters to {type(pipeline).__name__}", FIELD)
    options: dict[str, Any] = {"return_lora_metadata": True}
    if hasattr(pipeline, "unet"):
        options["unet_config"] = pipeline.unet.config  # by which layers are named as the original model names them
    if "return_alphas" in inspect.signature(read).parameters:
        options["return_alphas"] = True
    if isinstance(source, str):
        folder = pathlib.Path(source)
        place = (str(folder.parent), {"weight_name": folder.name}) if folder.is_file() else (source, {})
        found = read(place[0], **place[1], **options)
    else:
        found = read(dict(source), **options)
    return found[0], (found[1] if len(found) == 3 else {}) or {}, found[-1] or {}


def _in_peft_format(part: str, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return what belongs to a part, by the names of its layers: "mid_block.attentions.0.proj_in.lora_A.weight"."""
    from diffusers.utils import convert_state_dict_to_peft, convert_unet_state_dict_to_peft
    from diffusers.utils.state_dict_utils import StateDictType

    own = {key.removeprefix(f"{part}."): value for key, value in named.items() if key.startswith(f"{part}.")}
    own = {key.removesuffix(".alpha"): value for key, value in own.items()}
    if part in PARTS:
        return dict(convert_unet_state_dict_to_peft(own))
    return dict(convert_state_dict_to_peft(own, original_type=StateDictType.DIFFUSERS_OLD))


class _Alphas:
    """What the product of a layer's matrices is multiplied by, times its rank; as a file says it in one of two ways."""

    def __init__(self, by_name: Mapping[str, Any], part: str, config: Mapping[str, Any]) -> None:
        self._by_name = {name.removesuffix(DOWN): float(alpha) for name, alpha in by_name.items()}
        own = {key: value for key, value in config.items() if key.startswith(f"{part}.")}
        self._config = {key.removeprefix(f"{part}."): value for key, value in own.items()}

    def scale(self, name: str, rank: int) -> float:
        """Return alpha / rank of a layer; 1 where the file has no alpha."""
        if name in self._by_name:
            return self._by_name[name] / rank
        patterns = self._config.get("alpha_pattern") or {}
        named = next((key for key in patterns if re.match(rf"(.*\.)?({key})$", name)), None)
        alpha = float(self._config.get("lora_alpha", rank) if named is None else patterns[named])
        return alpha / (rank**0.5 if self._config.get("use_rslora") else rank)


def _plain(name: str) -> str:
    """Return a layer's name as releases of transformers before and after 5.6 both have it."""
    return name.removeprefix("text_model.")


def check_fits(name: str, layers: Layers, modules: Mapping[str, torch.nn.Module]) -> None:
    """Raise CannotGenerate for an adapter of another base: of layers that this has not, or has in another size."""
    for layer_name, layer in layers.items():
        weight: Any = getattr(modules.get(layer_name), "weight", None)
        fits = weight is not None and len(layer.up) == len(weight) and layer.down[0].numel() == weight[0].numel()
        if not fits:
            raise CannotGenerate(
                f"adapter {name!r} does not fit the base: layer {layer_name!r} is missing or of another size", FIELD
            )
        if type(weight.data) is not torch.Tensor or not weight.is_floating_point():
            raise CannotGenerate(f"adapter {name!r} cannot be added to quantised weights: {layer_name!r}", FIELD)


def _layer(source: str, name: str, weights: Mapping[str, torch.Tensor], alphas: _Alphas) -> LowRank:
    if name + DOWN not in weights or name + UP not in weights:
        raise CannotGenerate(f"adapter {source!r} is damaged: layer {name!r} has only one of its two matrices", FIELD)
    down, up = weights[name + DOWN], weights[name + UP]
    return LowRank(down, up, alphas.scale(name, len(down)))


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
    """The weights of one base's networks, with any combination of adapters in them. For one thread.

    Which combinations stay is decided elsewhere: `forget` lets go of one.
    """

    def __init__(self, networks: Mapping[str, torch.nn.Module]) -> None:
        """`networks`: by the name of the part that each is of its pipeline."""
        self._modules = {
            f"{part}.{_plain(name)}": module
            for part, network in networks.items()
            for name, module in network.named_modules()
        }
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
        """Return the bytes that a combination fills. Raises CannotGenerate for an adapter of another base."""
        for each in adapters:
            check_fits(each.name, each.layers, self._modules)
        weights = [self._modules[name].weight for name in {name for each in adapters for name in each.layers}]
        return sum(weight.numel() * weight.element_size() for weight in weights)

    def fuse(self, adapters: Sequence[Applied]) -> None:
        """Make a combination, unless it is kept. Raises CannotGenerate for an adapter of another base."""
        wanted = combination(adapters)
        if wanted and wanted not in self._sets:
            for each in adapters:
                check_fits(each.name, each.layers, self._modules)
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
            added = base.float()
            for each in adapters:
                if name in each.layers:
                    added = added + each.layers[name].delta(base, each.weight)
            tensors[name] = torch.empty_like(base).copy_(added)  # in the base's layout in memory
        return tensors


def _bytes(tensors: Mapping[str, torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
