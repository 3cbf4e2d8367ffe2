"""Where and how something was measured, and how many processes a machine has use for."""

import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_VERSIONS = ("pochade", "torch", "diffusers", "transformers", "numpy")
_MAX_JOBS = 4  # beyond it the memory of two models a process costs more than the saved time


def usual_jobs() -> int:
    """Number of generating processes: as many as cores on a CPU, up to four; one on CUDA."""
    import torch

    return 1 if torch.cuda.is_available() else max(1, min(_MAX_JOBS, os.cpu_count() or 1))


def provenance() -> dict[str, Any]:
    """When, where and by which command something was measured."""
    torch = sys.modules.get("torch")  # not imported only to name the device
    device = torch.cuda.get_device_name() if torch and torch.cuda.is_available() else ""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["pochade", *sys.argv[1:]]),
        "machine": {
            "processor": _processor(), "system": platform.system(), "python": platform.python_version(), "cuda": device
        },
        "versions": {name: version(name) for name in _VERSIONS if name == "pochade" or find_spec(name)},
    }  # fmt: skip


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()
