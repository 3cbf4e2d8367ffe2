"""Says what code was compiled for: architecture of the network, shapes, libraries, machine.

Weights are inputs of compiled code, so their values do not count: bases of one architecture share it, and adapters
that are fused into them need no other.
"""

import hashlib
import json
import pathlib
import platform
from typing import Any, Final

import diffusers
import torch

from planner.catalog.entries import Variant

FORMAT: Final = 1  # rises when the compiled function changes, or the files that are kept
CPU_LINES: Final = ("model name", "flags", "CPU part", "Features")  # of /proc/cpuinfo, on x86 and on ARM


def identity_of(network: torch.nn.Module, variant: Variant, batches: tuple[int, ...]) -> dict[str, Any]:
    """Return what decides the code of a variant's network: code of another identity is never run for it."""
    weights = next(network.parameters())
    return {
        "format": FORMAT,
        "python": platform.python_version(),
        "torch": [torch.__version__, torch.version.git_version, torch.version.cuda],
        "diffusers": diffusers.__version__,
        "network": f"{type(network).__module__}.{type(network).__qualname__}",
        "architecture": _architecture(network),
        "device": _device(weights.device),
        "threads": torch.get_num_threads(),  # the compiler writes their number into the code
        "images": [variant.width, variant.height, variant.guidance > 1.0, *batches],
    }


def _architecture(network: torch.nn.Module) -> str:
    """The sha-256 of a network's configuration, and of the shape, precision and layout of each tensor."""
    config = {name: value for name, value in dict(getattr(network, "config", {})).items() if not name.startswith("_")}
    tensors = [
        (name, list(tensor.shape), str(tensor.dtype), list(tensor.stride()))
        for name, tensor in sorted(network.state_dict().items())
    ]
    return hashlib.sha256(json.dumps([config, tensors], sort_keys=True, default=str).encode()).hexdigest()


def _device(device: torch.device) -> list[str]:
    if device.type == "cuda":
        return ["cuda", torch.cuda.get_device_name(device), str(torch.cuda.get_device_capability(device))]
    return [device.type, platform.machine(), "-".join(platform.libc_ver()), _cpu()]


def _cpu(file: pathlib.Path = pathlib.Path("/proc/cpuinfo")) -> str:
    """The sha-256 of the model and the instructions of this machine's first processor."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return f"{platform.processor()} {torch.backends.cpu.get_cpu_capability()}"
    found = {name: next((line for line in lines if line.startswith(name)), "") for name in CPU_LINES}
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()
