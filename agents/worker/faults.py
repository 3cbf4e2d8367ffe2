"""Whose fault it is that a call of an engine has failed: one table of errors, by the names of types and by texts.

Libraries wrap errors, so all causes of an error are looked at, and the gravest fault counts: a component that does not
load since the device is lost is the device's. An error that is not in the table is the model's.
"""

from collections.abc import Iterator
from typing import Final

from planner.serving.generating.effects import Fault

TYPES: Final = {
    "OutOfMemoryError": Fault.MEMORY,  # torch, by device; jaxlib
    "MemoryError": Fault.MEMORY,
    "AcceleratorError": Fault.DEVICE,  # torch
    "CannotGenerate": Fault.JOB,
    "BadImage": Fault.IMAGE,
    "ComponentFailed": Fault.CLIENT,
    "StoreUnavailable": Fault.CLIENT,
    "KafkaException": Fault.CLIENT,
}  # name of a type or of one that it is derived from
TEXTS: Final = (
    ("out of memory", Fault.MEMORY),  # "CUDA out of memory", "CUDA error: out of memory", "HIP out of memory"
    ("alloc_failed", Fault.MEMORY),  # CUBLAS_STATUS_ALLOC_FAILED, CUDNN_STATUS_ALLOC_FAILED
    ("cuda error", Fault.DEVICE),
    ("hip error", Fault.DEVICE),
    ("cublas_status", Fault.DEVICE),
    ("cudnn_status", Fault.DEVICE),
    ("cusolver error", Fault.DEVICE),
    ("nccl error", Fault.DEVICE),
    ("illegal memory access", Fault.DEVICE),
    ("device-side assert", Fault.DEVICE),
    ("unspecified launch failure", Fault.DEVICE),
    ("uncorrectable ecc error", Fault.DEVICE),
    ("no cuda gpus are available", Fault.DEVICE),
    ("gpu is lost", Fault.DEVICE),
    ("nvrm: xid", Fault.DEVICE),
    ("must be divisible by", Fault.JOB),  # a size, as diffusers' pipelines refuse it
    ("have to be divisible by", Fault.JOB),
)  # lower case; the first that an error's text has
GRAVEST: Final = (Fault.MEMORY, Fault.DEVICE, Fault.JOB, Fault.IMAGE, Fault.CLIENT)
TEXT_TYPES: Final = (RuntimeError, ValueError, OSError)  # whose texts are read: a prompt may be in those of others


def fault_of(error: BaseException) -> Fault:
    """Return whose fault an error of a call is."""
    found = {_own_fault(each) for each in _causes(error)}
    return next((fault for fault in GRAVEST if fault in found), Fault.MODEL)


def let_go(error: BaseException) -> None:
    """Let an error and its causes hold no frames, whose tensors would keep the memory that is to be freed."""
    for each in list(_causes(error)):
        each.__traceback__ = None


def _own_fault(error: BaseException) -> Fault | None:
    for kind in type(error).__mro__:
        if kind.__name__ == "AcceleratorError" and "out of memory" in str(error).lower():
            return Fault.MEMORY
        if kind.__name__ in TYPES:
            return TYPES[kind.__name__]
    text = str(error).lower() if isinstance(error, TEXT_TYPES) else ""
    return next((fault for part, fault in TEXTS if part in text), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
