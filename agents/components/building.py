"""Builds the parts of a pipeline from weights in host memory, as the libraries build them from files.

Each part is created without weights, and its values are copied from the buffers to its device, so that no tensor there
points into host memory. Parts that cannot be built so (names of an older release, quantised weights) are read by their
library from the component's files, whose digest was compared, and counted.
"""

import importlib
import json
import logging
import pathlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import torch

from agents.components.host import HostWeights
from streams import metrics

log = logging.getLogger(__name__)

INDEX: Final = "model_index.json"
_BUILDING: Final = threading.Lock()  # making a network without weights replaces torch's initialisers meanwhile


def parts_of(
    host: HostWeights, dtype: torch.dtype, files: str, besides: Sequence[str] = (), device: str | torch.device = "cpu"
) -> dict[str, Any]:
    """Return the networks of a base by name, in evaluation mode, without those in `besides`.

    `device`: for diffusers' networks; those of transformers are on the CPU. `files`: variant of the weight files, such
    as fp16; "" for the plain ones. A part that cannot be built is left out and counted: its library reads it.
    """
    index = json.loads((host.folder / INDEX).read_text())
    found: dict[str, Any] = {}
    for name, named in index.items():
        paths = _chosen([path for path in host.paths if path.startswith(f"{name}/")], files)
        if paths and name not in besides and isinstance(named, list) and all(isinstance(each, str) for each in named):
            try:
                kind = getattr(importlib.import_module(named[0]), named[1])
                found[name] = built(kind, host, host.folder / name, paths, dtype, device)
            except Exception as error:  # whatever other weights than these lead the libraries to
                log.info("%s of %s is read by its library, not from memory: %r", name, host.id, error)
                metrics.FALLBACKS.labels("worker", "read-by-library").inc()
    return found


def built(
    kind: Any, host: HostWeights, folder: pathlib.Path, paths: Iterable[str], dtype: torch.dtype,
    device: str | torch.device = "cpu",
) -> torch.nn.Module:  # fmt: skip
    """Return a network of a class of diffusers or transformers with the values of weight files.

    Raises the libraries' own errors if the weights do not fit the network.
    """
    tensors = {name: tensor for path in paths for name, tensor in host.tensors(path).items()}
    with _BUILDING:
        if hasattr(kind, "config_class"):
            return _of_transformers(kind, folder, tensors, dtype)
        return _of_diffusers(kind, folder, tensors, dtype, device)


def _of_diffusers(
    kind: Any, folder: pathlib.Path, tensors: Mapping[str, torch.Tensor], dtype: torch.dtype,
    device: str | torch.device,
) -> torch.nn.Module:  # fmt: skip
    from accelerate import init_empty_weights
    from transformers.initialization import no_init_weights

    with no_init_weights(), init_empty_weights(include_buffers=False):
        network: torch.nn.Module = kind.from_config(kind.load_config(folder))
    own = {name: _copied(tensor, dtype, device) for name, tensor in tensors.items()}
    network.load_state_dict(own, assign=True)  # takes them as they are; raises unless the names are exactly these
    return network.to(device, dtype).eval()


def _copied(tensor: torch.Tensor, dtype: torch.dtype, device: str | torch.device) -> torch.Tensor:
    """A tensor of its own on a device, in a network's precision if it has fractions."""
    return tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype, copy=True)


def _of_transformers(
    kind: Any, folder: pathlib.Path, tensors: Mapping[str, torch.Tensor], dtype: torch.dtype
) -> torch.nn.Module:
    config = kind.config_class.from_pretrained(folder)
    own = {name: tensor.clone() for name, tensor in tensors.items()}  # the library takes them as they are
    network, info = kind.from_pretrained(None, config=config, state_dict=own, dtype=dtype, output_loading_info=True)
    if info["missing_keys"]:
        raise ValueError(f"weights are missing: {sorted(info['missing_keys'])[:3]}")
    built_network: torch.nn.Module = network.eval()
    return built_network


def _chosen(paths: Iterable[str], files: str) -> list[str]:
    """The weight files of a variant: `model.fp16.safetensors` of fp16, `model.safetensors` of none."""
    by_kind: dict[bool, list[str]] = {True: [], False: []}
    for path in sorted(paths):
        stem = path.rpartition("/")[2].removesuffix(".safetensors")
        by_kind[(f".{files}" in stem) if files else ("." not in stem)].append(path)
    return by_kind[True]
