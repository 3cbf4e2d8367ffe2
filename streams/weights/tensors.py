"""Tensors of a safetensors file that lies in a buffer, without a copy of their values.

    8 bytes: length n of the header, little-endian
    n bytes: JSON, {name: {"dtype", "shape", "data_offsets": [begin, end]}}, offsets from the end of the header
    values

The library's own readers copy the bytes (`safetensors.torch.load`) or map the file, whose pages come from the page
cache. A tensor whose values do not begin at a multiple of their size is copied, as torch cannot point there.
"""

import itertools
import json
import math
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.errors import PochadeError

if TYPE_CHECKING:
    import torch

METADATA: Final = "__metadata__"  # key of a header for texts of any kind
MAX_HEADER: Final = 100_000_000  # bytes; the format's own limit
SIZES: Final = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4,
    "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8,
}  # fmt: skip
_TORCH: Final = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "I16": "int16",
    "U16": "uint16", "F16": "float16", "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32",
    "I64": "int64", "U64": "uint64", "F64": "float64",
}  # fmt: skip


class NotSafetensors(PochadeError):
    """Bytes that are not a safetensors file."""


class StoredTensor(NamedTuple):
    """A tensor of a file."""

    dtype: str  # as safetensors names it: F32, BF16, ...
    shape: tuple[int, ...]
    begin: int  # first byte in the file
    end: int  # past the last


def parse(buffer: memoryview, where: str) -> dict[str, StoredTensor]:
    """Return where each tensor of a file lies. Raises NotSafetensors: truncated, overlapping, or of unknown kinds."""
    header, length = _header(buffer, where)
    header.pop(METADATA, None)
    try:
        found = {name: _stored(entry, 8 + length) for name, entry in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NotSafetensors(f"{where}: its header cannot be read: {error!r:.200}") from None
    _check_extents(found, 8 + length, len(buffer), where)
    return found


def metadata(buffer: memoryview, where: str) -> dict[str, str]:
    """Return what a file's header says beside its tensors. Raises NotSafetensors."""
    found = _header(buffer, where)[0].get(METADATA)
    return found if isinstance(found, dict) else {}


def _header(buffer: memoryview, where: str) -> tuple[dict[str, Any], int]:
    """Return the header, and its length in bytes."""
    if len(buffer) < 8:
        raise NotSafetensors(f"{where} must have at least 8 bytes of safetensors: got {len(buffer)}")
    (length,) = struct.unpack("<Q", buffer[:8])
    if length > min(MAX_HEADER, len(buffer) - 8):
        raise NotSafetensors(f"{where}: its header has {length} bytes, the file {len(buffer)}: it was cut, or is none")
    try:
        return {**json.loads(bytes(buffer[8 : 8 + length]))}, length
    except (ValueError, TypeError, RecursionError) as error:
        raise NotSafetensors(f"{where}: its header cannot be read: {error!r:.200}") from None


def _stored(entry: Any, start: int) -> StoredTensor:
    begin, end = entry["data_offsets"]
    tensor = StoredTensor(entry["dtype"], tuple(entry["shape"]), start + begin, start + end)
    numbers = (begin, end, *tensor.shape)
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(f"offsets and shapes must be whole numbers: got {entry!r:.100}")
    if end - begin != math.prod(tensor.shape) * SIZES[tensor.dtype]:
        raise ValueError(f"{entry!r:.100} has {end - begin} bytes")
    return tensor


def _check_extents(found: dict[str, StoredTensor], start: int, size: int, where: str) -> None:
    """Every byte after the header belongs to one tensor, as the format wants: nothing hides between them."""
    extents = sorted((tensor.begin, tensor.end) for tensor in found.values())
    ends = [start, *(end for _, end in extents)]
    gaps = [
        (end, begin) for end, (begin, _) in itertools.zip_longest(ends, extents, fillvalue=(size, size)) if end != begin
    ]
    if gaps:
        raise NotSafetensors(f"{where}: its tensors leave a gap, overlap or end early at byte {gaps[0][0]} of {size}")


def array(buffer: memoryview, tensor: StoredTensor) -> NDArray[np.uint8]:
    """Return a tensor's bytes as an array that points into the buffer, and keeps its lease from being released."""
    return np.frombuffer(buffer, np.uint8, tensor.end - tensor.begin, tensor.begin)


def as_torch(buffer: memoryview, where: str) -> dict[str, "torch.Tensor"]:
    """Return the tensors of a file, by name, which point into the buffer where they can.

    Who changes values in place changes the buffer's. Raises NotSafetensors.
    """
    return {name: _as_torch(buffer, tensor) for name, tensor in parse(buffer, where).items()}


def _as_torch(buffer: memoryview, tensor: StoredTensor) -> "torch.Tensor":
    import torch

    kind = getattr(torch, _TORCH[tensor.dtype])
    if tensor.begin == tensor.end:
        return torch.empty(tensor.shape, dtype=kind)
    values = array(buffer, tensor)
    if values.ctypes.data % SIZES[tensor.dtype]:
        values = values.copy()
    return torch.from_numpy(values).view(kind).reshape(tensor.shape)
