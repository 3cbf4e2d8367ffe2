"""How a variant's model is loaded: what an engine needs to know beyond the model's folder or id."""

import re
from dataclasses import dataclass

from planner.catalog.validate import require

DEVICE = re.compile(r"|cpu|mps|cuda(:\d+)?")
DTYPES = ("", "float32", "float16", "bfloat16")
SPACINGS = ("", "leading", "linspace", "trailing")
WEIGHTS = re.compile(r"|.+\.safetensors")


@dataclass(frozen=True)
class Loading:
    """Empty values leave it to the engine or to the model's own files. Refuses impossible values."""

    device: str = ""  # "cpu", "cuda", "cuda:1", "mps"; "": cuda where there is one, else cpu
    dtype: str = ""  # "float32", "float16", "bfloat16"; "": float16 on cuda, else float32
    files: str = ""  # which of a hub model's files, such as "fp16" (diffusers' `variant`); "": the plain ones
    unet: str = ""  # weights instead of the model's own: a file, or OWNER/REPOSITORY@REVISION/FILE on the hub
    timestep_spacing: str = ""  # of the scheduler: what a distilled model was trained for
    licence: str = ""  # of the weights, for those who deploy them

    def __post_init__(self) -> None:
        is_device = DEVICE.fullmatch(self.device) is not None
        require(is_device, "device", self.device, "cpu, mps, cuda or cuda:N", "correct it, or omit it")
        require(self.dtype in DTYPES, "dtype", self.dtype, "one of " + ", ".join(DTYPES[1:]), "correct it, or omit it")
        spaced = self.timestep_spacing in SPACINGS
        require(spaced, "timestep_spacing", self.timestep_spacing, "one of " + ", ".join(SPACINGS[1:]), "correct it")
        named = WEIGHTS.fullmatch(self.unet) is not None
        require(named, "unet", self.unet, "a .safetensors file", "other formats can run code: convert it")
        halves = self.device == "cpu" and self.dtype == "float16"
        require(not halves, "dtype", self.dtype, "float32 or bfloat16 on cpu", "half precision is for accelerators")


PLAIN = Loading()
