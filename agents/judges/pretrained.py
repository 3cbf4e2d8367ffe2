"""The device of a pretrained judge on this machine."""

import os

import torch

from agents.judges import JudgeFailed
from agents.models.pretrained import device_named
from planner.catalog.judges import Judge

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it warns, when imported, of packages that no judge needs


def device_of(judge: Judge) -> str:
    """Return the device of a judge on this machine. Raises JudgeFailed: it is not there."""
    device = device_named(judge.device)
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise JudgeFailed(f"judge {judge.name!r}: device {device!r} is not there: omit it to judge on the CPU")
    return device
