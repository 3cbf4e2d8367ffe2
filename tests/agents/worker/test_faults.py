"""Whose fault an error of a call is, whatever library it comes from and whatever wraps it."""

import pytest

from agents.components.weight_files import ComponentFailed
from agents.engines import CannotGenerate, EngineFailed
from agents.engines.finite import BadImage
from agents.worker.faults import fault_of, let_go
from planner.serving.generating.effects import Fault
from streams.store.port import StoreUnavailable


class OutOfMemoryError(RuntimeError):
    """As torch.OutOfMemoryError."""


class AcceleratorError(RuntimeError):
    """As torch.AcceleratorError."""


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (OutOfMemoryError("Tried to allocate 20.00 GiB"), Fault.MEMORY),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"), Fault.MEMORY),
        (RuntimeError("CUDA error: out of memory"), Fault.MEMORY),
        (AcceleratorError("CUDA error: out of memory"), Fault.MEMORY),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), Fault.MEMORY),
        (MemoryError(), Fault.MEMORY),
        (AcceleratorError("CUDA error: unknown error"), Fault.DEVICE),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), Fault.DEVICE),
        (RuntimeError("CUDA error: device-side assert triggered"), Fault.DEVICE),
        (RuntimeError("CUDA error: unspecified launch failure"), Fault.DEVICE),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"), Fault.DEVICE),
        (RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"), Fault.DEVICE),
        (RuntimeError("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus"), Fault.DEVICE),
        (CannotGenerate("adapter 'x' does not fit the base"), Fault.JOB),
        (ValueError("`height` and `width` have to be divisible by 8 but are 72 and 60."), Fault.JOB),
        (BadImage("all pixels are black"), Fault.IMAGE),
        (EngineFailed("a base cannot be had now"), Fault.MODEL),
        (ComponentFailed("base:poster cannot be fetched"), Fault.CLIENT),
        (StoreUnavailable("503"), Fault.CLIENT),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), Fault.MODEL),
        (KeyError("a prompt that says CUDA error"), Fault.MODEL),
    ],
)
def test_an_error_is_the_fault_of(error: Exception, fault: Fault) -> None:
    assert fault_of(error) is fault


def test_the_cause_of_an_error_counts_and_the_gravest_of_them() -> None:
    def raised() -> Exception:
        try:
            try:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            except RuntimeError as error:
                raise ComponentFailed("base:poster does not load") from error
        except ComponentFailed as error:
            return error

    error = raised()
    assert fault_of(error) is Fault.DEVICE
    let_go(error)
    assert error.__traceback__ is None
    assert error.__cause__ is not None
    assert error.__cause__.__traceback__ is None
